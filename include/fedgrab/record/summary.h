/// From the rounds of a run to its summary.
#pragma once

#include <vector>

#include "fedgrab/core/enums.h"
#include "fedgrab/record/schema.h"

namespace fedgrab {

/// What makes a round the best one.
enum class Criterion { all, macro_f1, few, balanced_accuracy };
template <>
inline constexpr auto enum_names<Criterion> = names("all", "macro-f1", "few", "balanced-accuracy");

/// Last, mean of the last ten, best by `criterion` (of EvalParams) and the round Few reached 0.55, from the evaluated
/// rounds.
Summary summarise(const std::vector<RoundRecord>& records, Criterion criterion = Criterion::balanced_accuracy);

}  // namespace fedgrab
