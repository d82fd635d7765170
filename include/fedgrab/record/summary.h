/// From the rounds of a run to what they come down to.
#pragma once

#include <string>
#include <vector>

#include "fedgrab/record/schema.h"

namespace fedgrab {

/// Last, mean of the last ten, best by `criterion` (of EvalParams) and the round Few reached 0.55, from the evaluated
/// rounds.
Summary summarise(const std::vector<RoundRecord>& records, const std::string& criterion = "all");

}  // namespace fedgrab
