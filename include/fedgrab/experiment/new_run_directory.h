/// Where a new run is written.
#pragma once

#include <string>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/run_directory.h"

namespace fedgrab {

/// The directory for a new run: `wanted`, which must not hold one already, or else a fresh name under runs/.
RunDirectory new_run_directory(const std::string& wanted, const Settings& settings);

}  // namespace fedgrab
