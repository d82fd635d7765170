#pragma once

#include <string>

namespace fedgrab::cli {

/// "0.1.0 (REVISION), LibTorch 1.13.1": what made a result.
std::string revision_text();

}  // namespace fedgrab::cli
