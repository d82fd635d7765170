/// Losses that a client trains with, against their formulas: autograd in double, random and extreme logits.
#include <gtest/gtest.h>

#include <cmath>

#include "fedgrab/objective/objective.h"

namespace fedgrab {
namespace {

using Formula = torch::Tensor (*)(const torch::Tensor& z, const torch::Tensor& labels, const torch::Tensor& counts);

struct LossCase {
  const char* name;
  const char* strength;  // the parameter whose zero leaves cross-entropy
  double value;
  Formula formula;  // one loss per sample
};
void PrintTo(const LossCase& c, std::ostream* out) { *out << c.name << " " << c.value; }

torch::Tensor of_label(const torch::Tensor& z, const torch::Tensor& labels) {
  return z.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
}

template <int gamma_times_2>
torch::Tensor focal(const torch::Tensor& z, const torch::Tensor& labels, const torch::Tensor&) {
  const auto log_p = of_label(z, labels);
  return -(-torch::expm1(log_p)).clamp_min(1e-300).pow(gamma_times_2 / 2.0) * log_p;
}
torch::Tensor balanced(const torch::Tensor& z, const torch::Tensor& labels, const torch::Tensor& counts) {
  const auto n = counts.to(torch::kDouble).clamp_min(1);
  return -of_label(z + 1.5 * (n / n.sum()).log(), labels);
}
torch::Tensor fedlc(const torch::Tensor& z, const torch::Tensor& labels, const torch::Tensor& counts) {
  return -of_label(z - 0.7 / counts.to(torch::kDouble).clamp_min(1).sqrt().sqrt(), labels);
}

class LocalLoss : public testing::TestWithParam<LossCase> {
 protected:
  static std::unique_ptr<Objective> make(double strength) {
    Schema schema;
    declare_objectives(schema);
    Config config(schema);
    config.set(std::string("objective.") + GetParam().name + "." + GetParam().strength, strength);
    return make_objective(GetParam().name, config);
  }
  static LogitBatch batch(int64_t size, int64_t classes, double scale) {
    torch::manual_seed(size + classes);
    LogitBatch made{.logits = torch::randn({size, classes}) * scale, .labels = torch::randint(classes, {size})};
    made.counts = torch::arange(classes, torch::kFloat);  // the first class is missing
    return made;
  }
  static void expect_formula(const LogitBatch& b, double tolerance) {
    TensorMap memory;
    const auto [loss, gradient] = (*make(GetParam().value))(b, memory);
    const auto z = b.logits.to(torch::kDouble).requires_grad_();
    const auto expected = GetParam().formula(z, b.labels, b.counts).mean();
    expected.backward();
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    EXPECT_TRUE(torch::allclose(gradient.to(torch::kDouble), z.grad(), tolerance, tolerance * 1e-1))
        << (gradient - z.grad()).abs().max();
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5 * std::max(1.0, std::abs(expected.item<double>())));
  }
};

TEST_P(LocalLoss, FollowsItsFormula) {
  for (const int64_t classes : {10, 1000}) expect_formula(batch(7, classes, 3), 1e-5);
}

TEST_P(LocalLoss, StandsOneSampleAndOneClass) {
  expect_formula(batch(1, 10, 3), 1e-5);
  auto single = batch(3, 1, 3);
  single.counts = torch::ones({1});
  TensorMap memory;
  const auto result = (*make(GetParam().value))(single, memory);
  EXPECT_EQ(result.gradient.abs().sum().item<double>(), 0);
}

TEST_P(LocalLoss, StandsExtremeLogits) {
  for (const double far : {1e4, -1e4}) {
    auto b = batch(4, 10, 1);
    b.logits.select(1, 3).fill_(far);
    TensorMap memory;
    const auto [loss, gradient] = (*make(GetParam().value))(b, memory);
    EXPECT_TRUE(loss.isfinite().item<bool>() && gradient.isfinite().all().item<bool>());
    EXPECT_LE(gradient.abs().max().item<double>(), 1.01 / 4 * 1.5);  // focal's slope peaks above 1
  }
}

TEST_P(LocalLoss, ZeroStrengthIsCrossEntropyToTheBit) {
  const auto b = batch(7, 10, 3);
  TensorMap memory;
  const auto [loss, gradient] = (*make(0))(b, memory);
  const auto plain = softmax_loss(b);
  EXPECT_TRUE(torch::equal(loss, plain.loss) && torch::equal(gradient, plain.gradient));
}

TEST_P(LocalLoss, SlotsAreTrainedSideBySide) {
  const auto a = batch(5, 10, 3);
  auto other = batch(5, 10, 2);
  other.counts = torch::arange(10, 0, -1, torch::kFloat);
  LogitBatch both{.logits = torch::stack({a.logits, other.logits}), .labels = torch::stack({a.labels, other.labels})};
  both.counts = torch::stack({a.counts, other.counts});
  both.mask = torch::ones({2, 5});
  TensorMap memory;
  const auto objective = make(GetParam().value);
  const auto together = (*objective)(both, memory);
  EXPECT_TRUE(torch::allclose(together.gradient[0], (*objective)(a, memory).gradient, 1e-5, 1e-8));
  EXPECT_TRUE(torch::allclose(together.gradient[1], (*objective)(other, memory).gradient, 1e-5, 1e-8));
}

INSTANTIATE_TEST_SUITE_P(Losses, LocalLoss,
                         testing::Values(LossCase{"focal", "gamma", 2, focal<4>},
                                         LossCase{"focal", "gamma", 1, focal<2>},
                                         LossCase{"focal", "gamma", 0.5, focal<1>},
                                         LossCase{"balanced-softmax", "tau", 1.5, balanced},
                                         LossCase{"fedlc", "tau", 0.7, fedlc}));

}  // namespace
}  // namespace fedgrab
