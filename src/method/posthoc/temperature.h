/// Temperature scaling (Guo et al. 2017): all logits divided by one number.
#pragma once

#include "fedgrab/model/state.h"

namespace fedgrab {

/// `model` with its logits divided by `temperature`. A linear head takes it into weights and bias, so that a model file
/// needs no extra factor; other heads have a factor of their own.
State with_temperature(const State& model, double temperature);

}  // namespace fedgrab
