# The revision shown by `fedgrab version` and recorded with every run; "unknown" outside a checkout.
execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE FEDGRAB_REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT FEDGRAB_REVISION)
  set(FEDGRAB_REVISION unknown)
endif()
