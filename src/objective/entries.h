/// One function per objective file, for the registry.
#pragma once

#include "fedgrab/objective/objective.h"

namespace fedgrab {

ObjectiveEntry focal_entry();
ObjectiveEntry balanced_softmax_entry();
ObjectiveEntry fedlc_entry();

}  // namespace fedgrab
