#include "entries.h"

namespace fedgrab {

const std::vector<Choice<PosthocClassifier>>& posthoc_classifiers() {
  static const std::vector<Choice<PosthocClassifier>> entries{
      {"none", "the trained classifier, unchanged", [](const Config&) { return std::unique_ptr<PosthocClassifier>(); }},
      tau_norm_entry(),
      logit_adjustment_entry(),
      bias_calibration_entry(),
      mean_softmax_entry(),
      creff_entry(),
      aligned_entry(),
  };
  return entries;
}

}  // namespace fedgrab
