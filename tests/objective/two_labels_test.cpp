/// Losses of mixed images: λ of the loss with the one label and 1 − λ of that with the other.
#include <gtest/gtest.h>

#include "fedgrab/objective/objective.h"

namespace fedgrab::two_labels_test {

std::unique_ptr<Objective> loss_named(const std::string& name) {
  Schema schema;
  declare_all(objectives(), schema);
  return make_objective(name, Config(schema));
}

class TwoLabels : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Objective> loss = loss_named(GetParam());
  TensorMap state;

  static LogitBatch batch_of(at::IntArrayRef slots) {
    torch::manual_seed(4);
    auto shape = slots.vec();
    shape.push_back(6);
    LogitBatch batch{.labels = torch::randint(5, shape, torch::kLong)};
    auto classes = slots.vec();
    classes.push_back(5);
    batch.counts = torch::randint(1, 90, classes).to(torch::kFloat);
    shape.push_back(5);
    batch.logits = torch::randn(shape) * 3;
    return batch;
  }
  void expect_mixture(LogitBatch batch, const torch::Tensor& share) {
    const auto other = (batch.labels + torch::arange(6)).remainder(5);  // the same in places
    const auto first = (*loss)(batch, state);
    LogitBatch with_other = batch;
    with_other.labels = other;
    const auto second = (*loss)(with_other, state);
    batch.other_labels = other;
    batch.share = share;
    const auto mixed = (*loss)(batch, state);
    const auto of_loss = share.squeeze(-1), of_gradient = share.unsqueeze(-1);
    EXPECT_TRUE(torch::allclose(mixed.loss, first.loss * of_loss + second.loss * (1 - of_loss), 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(mixed.gradient, first.gradient * of_gradient + second.gradient * (1 - of_gradient),
                                1e-5, 1e-7));
  }
};

TEST_P(TwoLabels, GiveTheMixtureOfTheLosses) { expect_mixture(batch_of({}), torch::full({1}, 0.3F)); }

TEST_P(TwoLabels, HaveAShareInEverySlot) { expect_mixture(batch_of({2}), torch::tensor({{0.3F}, {0.8F}})); }

TEST_P(TwoLabels, AreOneLabelAtAShareOfOne) {
  auto batch = batch_of({});
  const auto one = (*loss)(batch, state);
  batch.other_labels = batch.labels.roll(-1);
  batch.share = torch::ones({1});
  const auto mixed = (*loss)(batch, state);
  EXPECT_TRUE(torch::equal(mixed.loss, one.loss));
  EXPECT_TRUE(torch::equal(mixed.gradient, one.gradient));
}

TEST_P(TwoLabels, AreWeighedByTheirOwnClasses) {
  auto batch = batch_of({});
  const auto weights = torch::tensor({0.5F, 2.0F, 0.0F, 1.0F, 4.0F});
  const auto other = batch.labels.roll(-1);
  const auto weighted = [&](const torch::Tensor& labels) {
    LogitBatch single = batch;
    single.labels = labels;
    weigh_by_class(single, weights);
    return (*loss)(single, state);
  };
  const auto first = weighted(batch.labels), second = weighted(other);
  batch.other_labels = other;
  batch.share = torch::full({1}, 0.3F);
  weigh_by_class(batch, weights);
  const auto mixed = (*loss)(batch, state);
  EXPECT_TRUE(torch::allclose(mixed.loss, 0.3 * first.loss + 0.7 * second.loss, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(mixed.gradient, 0.3 * first.gradient + 0.7 * second.gradient, 1e-5, 1e-7));
}

INSTANTIATE_TEST_SUITE_P(Losses, TwoLabels, testing::Values("softmax", "sigmoid", "balanced-softmax", "fedlc"));

TEST(OneLabel, IsAllThatOtherLossesTake) {
  for (const char* name : {"sgb", "eqlv2", "seesaw", "ldam", "gcl", "focal"})
    EXPECT_FALSE(loss_named(name)->mixes()) << name;
  EXPECT_FALSE(collecting(loss_named("softmax"))->mixes());
  LogitBatch batch{.logits = torch::zeros({2, 3}), .labels = torch::tensor({0, 1}), .share = torch::ones({1})};
  batch.other_labels = torch::tensor({1, 2});
  batch.counts = torch::ones({3});
  TensorMap state;
  EXPECT_THROW((*loss_named("sgb"))(batch, state), c10::Error);
}

}  // namespace fedgrab::two_labels_test
