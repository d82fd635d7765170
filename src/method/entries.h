/// What the method files share: one function each for the registry.
#pragma once

#include "fedgrab/method/method.h"

namespace fedgrab {

/// What an optimiser moves and the server averages: the rest of the shared part is BatchNorm's statistics.
inline std::vector<Range> moved_ranges(const Model& model) {
  return model.ranges([](const ParameterInfo& p) { return p.trained() && p.role == Role::shared; });
}

MethodEntry fedprox_entry();
MethodEntry fednova_entry();
MethodEntry fedavgm_entry();
MethodEntry fedadagrad_entry();
MethodEntry fedadam_entry();
MethodEntry fedyogi_entry();

}  // namespace fedgrab
