#include "fedgrab/core/error.h"
#include "fedgrab/report/watch.h"

namespace fedgrab {

void watch(const WatchOptions&, const std::function<void(const std::string&)>&) {
  throw Error(Fault::other, "watch", "this program was built without cpp-httplib",
              "install libcpp-httplib-dev and pkg-config, configure and build again; `fedgrab report` works without");
}

}  // namespace fedgrab
