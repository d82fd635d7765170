/* The page as it is, without a detour through a string literal of C++. */
    .section .rodata
    .global fedgrab_page_begin, fedgrab_page_end
fedgrab_page_begin:
    .incbin "page.html"
fedgrab_page_end:
    .section .note.GNU-stack, "", %progbits
