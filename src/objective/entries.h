/// What the objective files share: one function each for the registry.
#pragma once

#include "fedgrab/objective/objective.h"

namespace fedgrab {

/// The head of losses that speak of cosines.
inline Head cosine_head(double scale) { return {.kind = HeadKind::cosine, .bias = false, .scale = scale}; }

ObjectiveEntry focal_entry();
ObjectiveEntry balanced_softmax_entry();
ObjectiveEntry fedlc_entry();
ObjectiveEntry ldam_entry();
ObjectiveEntry gcl_entry();
ObjectiveEntry eqlv2_entry();
ObjectiveEntry seesaw_entry();

}  // namespace fedgrab
