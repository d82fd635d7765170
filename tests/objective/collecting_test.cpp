/// What every class has collected of positive and negative gradient, under a loss that does not collect it itself.
#include <gtest/gtest.h>

#include "fedgrab/objective/balancer.h"
#include "fedgrab/objective/objective.h"

namespace fedgrab::collecting_test {

LogitBatch some_batch(double shift) {
  LogitBatch batch;
  batch.logits = torch::tensor({{1.0, -1.0, 0.5}, {0.0, 2.0, -0.5}}) + shift;
  batch.labels = torch::tensor({0, 2}, torch::kLong);
  return batch;
}

TEST(Collecting, LeavesTheLossAloneAndSumsItsGradients) {
  const Config none{Schema{}};
  const auto plain = make_objective("softmax", none), watched = collecting(make_objective("softmax", none));
  TensorMap nothing, memory;
  auto delta = torch::zeros({3}, torch::kDouble);
  for (const double shift : {0.0, 0.3, -1.0}) {
    const auto batch = some_batch(shift);
    const auto expected = (*plain)(batch, nothing), found = (*watched)(batch, memory);
    EXPECT_TRUE(torch::equal(expected.loss, found.loss));
    EXPECT_TRUE(torch::equal(expected.gradient, found.gradient));
    delta -= expected.gradient.sum(0).to(torch::kDouble);  // positive gradients are negative numbers
  }
  EXPECT_TRUE(nothing.empty());
  EXPECT_TRUE(plain->diagnose(nothing).empty());
  const auto values = watched->diagnose(memory).at("delta");
  for (size_t j = 0; j < values.size(); ++j)
    EXPECT_NEAR(values[j], delta[static_cast<int64_t>(j)].item<double>(), 1e-6);
}

TEST(Collecting, LeavesTheOwnAccountOfALossAlone) {
  const auto watched = collecting(std::make_unique<BalancedObjective>(BalancerParams{}));
  const BalancedObjective plain({});
  TensorMap memory, own;
  for (const double shift : {0.0, 0.3}) {
    (*watched)(some_batch(shift), memory);
    plain(some_batch(shift), own);
  }
  EXPECT_EQ(watched->diagnose(memory), plain.diagnose(own));
  EXPECT_EQ(plain.diagnose(own).size(), 3U);
}

TEST(Collecting, ASlotWithoutSamplesCollectsNothing) {
  const auto watched = collecting(make_objective("softmax", Config(Schema{})));
  auto batch = some_batch(0);
  batch.logits = torch::stack({batch.logits, batch.logits});
  batch.labels = torch::stack({batch.labels, batch.labels});
  batch.mask = torch::tensor({{1.0, 1.0}, {0.0, 0.0}});
  TensorMap memory;
  (*watched)(batch, memory);
  EXPECT_GT(memory.at("collected.positive")[0].sum().item<double>(), 0);
  EXPECT_EQ(memory.at("collected.positive")[1].sum().item<double>(), 0);
  EXPECT_EQ(memory.at("collected.negative")[1].sum().item<double>(), 0);
}

}  // namespace fedgrab::collecting_test
