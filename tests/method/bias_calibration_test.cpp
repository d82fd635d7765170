/// Which images the class bias of the deployed model counts more.
#include <gtest/gtest.h>

#include "tests/method/tiny.h"
#include "tests/tensors.h"

namespace fedgrab::bias_calibration_test {

/// 60 images of class 0, 20 of class 1, 4 of class 2, which their logits hardly tell apart.
LabelledLogits images(bool balanced_test) {
  std::vector<int64_t> labels(84, 0);
  std::fill(labels.begin() + 60, labels.end(), 1);
  std::fill(labels.begin() + 80, labels.end(), 2);
  return {normal_numbers({84, 3}, 1), torch::tensor(labels), balanced_test};
}

std::vector<double> bias_of(const LabelledLogits& images, const Values& settings) {
  Values values{{"posthoc.kind", "bias-calibration"}};
  values.insert(values.end(), settings.begin(), settings.end());
  TinyFederation f(compose("fedavg", values), 4, 3);
  f.method.fit(images, f.global, f.server);
  return f.method.posthoc_numbers(f.server).at("bias");
}

TEST(BiasCalibration, WeighsClassesAlikeWhereTheTestSetIsBalancedAndBetweenOnYourOwnData) {
  const auto with = [](const char* balance) {
    return bias_of(images(false), {{"posthoc.bias-calibration.balance", balance}});
  };
  EXPECT_EQ(bias_of(images(true), {}), with("1"));
  EXPECT_EQ(bias_of(images(false), {}), with("0.25"));
  const auto lead_of_the_rarest = [](const std::vector<double>& bias) { return bias[2] - bias[0]; };
  EXPECT_LT(lead_of_the_rarest(with("0")), lead_of_the_rarest(with("0.25")));
  EXPECT_LT(lead_of_the_rarest(with("0.25")), lead_of_the_rarest(with("1")));
}

}  // namespace fedgrab::bias_calibration_test
