#include "fedgrab/core/error.h"
#include "fedgrab/report/page.h"

namespace fedgrab {

std::string_view empty_page() {
  throw Error(Fault::other, "report", "this program was built without the page, which takes Node.js and npm",
              "install them (scripts/setup.sh), configure and build again; --svg and `fedgrab table` work without");
}

}  // namespace fedgrab
