/// The post-hoc classifiers' entries, one function each for the registry.
#pragma once

#include "fedgrab/method/posthoc.h"

namespace fedgrab {

Choice<PosthocClassifier> tau_norm_entry();
Choice<PosthocClassifier> logit_adjustment_entry();
Choice<PosthocClassifier> bias_calibration_entry();
Choice<PosthocClassifier> mean_softmax_entry();
Choice<PosthocClassifier> creff_entry();
Choice<PosthocClassifier> aligned_entry();

}  // namespace fedgrab
