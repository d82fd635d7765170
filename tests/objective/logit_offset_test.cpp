#include <gtest/gtest.h>

#include <cmath>

#include "fedgrab/objective/objective.h"

namespace fedgrab::logit_offset_test {

std::unique_ptr<Objective> loss_with(const std::string& name, double tau) {
  Schema schema;
  declare_all(objectives(), schema);
  Config config(schema);
  config.set("objective." + name + ".tau", tau);
  return make_objective(name, config);
}

/// A kernel that adds the offset and computes the base loss computes this loss.
TEST(LogitOffset, IsWhatTheLossAddsToTheLogits) {
  torch::manual_seed(1);
  LogitBatch batch{.logits = torch::randn({2, 6, 4}), .labels = torch::randint(4, {2, 6}, torch::kLong)};
  batch.counts = torch::tensor({{40.0F, 3.0F, 0.0F, 7.0F}, {1.0F, 1.0F, 900.0F, 2.0F}});
  TensorMap state;
  for (const char* name : {"balanced-softmax", "fedlc"}) {
    const auto loss = loss_with(name, 1.5);
    EXPECT_TRUE(loss->kernel_form().value().offset) << name;
    const auto expected = (*loss)(batch, state);
    LogitBatch shifted = batch;
    shifted.logits = batch.logits + loss->logit_offset(batch.counts).unsqueeze(-2);
    const auto actual = softmax_loss(shifted);
    EXPECT_TRUE(torch::equal(actual.loss, expected.loss)) << name;
    EXPECT_TRUE(torch::equal(actual.gradient, expected.gradient)) << name;
  }
}

TEST(LogitOffset, FollowsTheFormulas) {
  const auto counts = torch::tensor({81.0F, 16.0F, 0.0F});  // a class without samples counts as one
  const auto balanced = loss_with("balanced-softmax", 2)->logit_offset(counts);
  const auto fedlc = loss_with("fedlc", 2)->logit_offset(counts);
  const std::vector<double> shares{81.0 / 98, 16.0 / 98, 1.0 / 98}, roots{1.0 / 3, 1.0 / 2, 1.0};
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(balanced[c].item<double>(), 2 * std::log(shares[static_cast<size_t>(c)]), 1e-5);
    EXPECT_NEAR(fedlc[c].item<double>(), -2 * roots[static_cast<size_t>(c)], 1e-6);
  }
}

TEST(LogitOffset, IsNoneOfABaseLossAndOfAStrengthOfZero) {
  EXPECT_FALSE(loss_with("fedlc", 0)->kernel_form().value().offset);
  EXPECT_FALSE(make_objective("softmax", Config(Schema()))->logit_offset(torch::ones({3})).defined());
}

}  // namespace fedgrab::logit_offset_test
