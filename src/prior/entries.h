/// The estimators' entries, one function each for the registry.
#pragma once

#include "fedgrab/prior/class_prior.h"

namespace fedgrab {

Choice<ClassPrior> dpa_entry();
Choice<ClassPrior> counts_entry();
Choice<ClassPrior> bias_probe_entry();
Choice<ClassPrior> fixed_entry();

}  // namespace fedgrab
