#include "fedgrab/report/page.h"

extern "C" const char fedgrab_page_begin, fedgrab_page_end;  // page_bytes.S

namespace fedgrab {

std::string_view empty_page() { return {&fedgrab_page_begin, &fedgrab_page_end}; }

}  // namespace fedgrab
