/// The charts of the page as SVG files for papers.
#pragma once

#include <map>
#include <span>
#include <string>

#include "fedgrab/report/run.h"

namespace fedgrab {

/// File name to content. What no run records has no file.
std::map<std::string, std::string> figures(std::span<const Run> runs);

}  // namespace fedgrab
