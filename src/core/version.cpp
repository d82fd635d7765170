#include "fedgrab/core/version.h"

namespace fedgrab {

// version() and revision() are in a file that the build writes: cmake/revision.cmake.
std::string program_text() { return "fedgrab " + version() + ", revision " + revision(); }

}  // namespace fedgrab
