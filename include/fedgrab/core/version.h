/// What made a result: the version of this library, and the revision of the checkout it was built from.
#pragma once

#include <string>

namespace fedgrab {

/// "0.1.0".
std::string version();
/// As `git describe --dirty` says it, at the time of the build; "unknown" outside a checkout.
std::string revision();
/// "fedgrab 0.1.0, revision 5a9a59b6b1f4": for the record of a run.
std::string program_text();

}  // namespace fedgrab
