/// One measurement of speed beside an earlier one.
#pragma once

#include <string>

#include "fedgrab/record/json.h"

namespace fedgrab::cli {

/// What `fedgrab bench --json` wrote; an error names the file.
Json read_benchmark(const std::string& file);
/// How many times as fast as `earlier`: client-steps per second.
double speed_ratio(const Json& earlier, const Json& now);
/// A row for each quantity that both have. What was measured under other settings is said first.
std::string comparison_text(const Json& earlier, const Json& now);

}  // namespace fedgrab::cli
