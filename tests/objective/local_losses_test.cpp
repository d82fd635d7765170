/// Losses that a client trains with, against their formulas: autograd in double, random and extreme logits.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "fedgrab/objective/objective.h"

namespace fedgrab::local_losses_test {

using Formula = torch::Tensor (*)(const torch::Tensor& z, const LogitBatch& batch);

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

/// Sizes of the classes as the rules take them: a class that the client lacks counts as one sample.
torch::Tensor sizes(const LogitBatch& batch) { return batch.counts.to(torch::kDouble).clamp_min(1); }

template <int gamma_times_2>
torch::Tensor focal(const torch::Tensor& z, const LogitBatch& batch) {
  const auto log_p = of_label(z, batch.labels);
  return -(-torch::expm1(log_p)).clamp_min(1e-300).pow(gamma_times_2 / 2.0) * log_p;
}
torch::Tensor balanced(const torch::Tensor& z, const LogitBatch& batch) {
  const auto n = sizes(batch);
  return -of_label(z + 1.5 * (n / n.sum()).log(), batch.labels);
}
torch::Tensor fedlc(const torch::Tensor& z, const LogitBatch& batch) {
  return -of_label(z - 0.7 / sizes(batch).sqrt().sqrt(), batch.labels);
}
// The logits of the next two are 30 times a cosine, so their margins are too.
torch::Tensor ldam(const torch::Tensor& z, const LogitBatch& batch) {
  const auto n = sizes(batch);
  const auto margin = 0.5 * (n.min() / n).sqrt().sqrt();
  return -of_label(z - 30 * margin * torch::one_hot(batch.labels, z.size(1)), batch.labels);
}
torch::Tensor gcl(const torch::Tensor& z, const LogitBatch& batch) {
  const auto n = sizes(batch);
  const auto spread = (n.max() / n.min()).log();
  const auto delta = spread.item<double>() > 0 ? (n.max() / n).log() / spread : torch::zeros_like(n);
  const auto u = batch.uniforms.to(torch::kDouble).view(z.sizes());
  const auto epsilon = (std::sqrt(2.0) * torch::erfinv(2 * u - 1)).abs() / 3;
  return -of_label(z - 30 * 0.4 * epsilon.clamp_max(1) * delta, batch.labels);
}

std::unique_ptr<Objective> made(const std::string& name, const std::map<std::string, double>& params) {
  Schema schema;
  declare_all(objectives(), schema);
  Config config(schema);
  for (const auto& [param, value] : params) config.set("objective." + name + "." + param, value);
  return make_objective(name, config);
}

LogitBatch random_batch(int64_t size, int64_t classes, double scale) {
  torch::manual_seed(size + classes);
  LogitBatch batch{.logits = torch::randn({size, classes}) * scale, .labels = torch::randint(classes, {size})};
  batch.labels[0].fill_(0);
  batch.counts = torch::arange(classes, torch::kFloat);  // the first class is missing
  batch.uniforms = torch::rand({size * classes});
  batch.uniforms[0].fill_(0);   // the far end of the Gaussian, for the rarest class
  batch.uniforms[-1].fill_(0);  // and for the commonest
  return batch;
}

class LocalLoss : public testing::TestWithParam<LossCase> {
 protected:
  static std::unique_ptr<Objective> make(double strength) {
    return made(GetParam().name, {{GetParam().strength, strength}});
  }
  static void expect_formula(const LogitBatch& b, double tolerance) {
    TensorMap memory;
    const auto [loss, gradient] = (*make(GetParam().value))(b, memory);
    const auto z = b.logits.to(torch::kDouble).requires_grad_();
    const auto expected = GetParam().formula(z, b).mean();
    expected.backward();
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    EXPECT_TRUE(torch::allclose(gradient.to(torch::kDouble), z.grad(), tolerance, tolerance * 1e-1))
        << (gradient - z.grad()).abs().max();
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(),
                tolerance * std::max(1.0, std::abs(expected.item<double>())));
  }
};

TEST_P(LocalLoss, FollowsItsFormula) {
  for (const int64_t classes : {10, 1000}) expect_formula(random_batch(7, classes, 3), 1e-5);
}

TEST_P(LocalLoss, StandsOneSampleAndOneClass) {
  expect_formula(random_batch(1, 10, 3), 1e-5);
  auto single = random_batch(3, 1, 3);
  single.counts = torch::ones({1});
  TensorMap memory;
  const auto result = (*make(GetParam().value))(single, memory);
  EXPECT_EQ(result.gradient.abs().sum().item<double>(), 0);
}

TEST_P(LocalLoss, StandsExtremeLogits) {
  for (const int64_t classes : {10, 1000})
    for (const double far : {1e4, -1e4}) {
      auto b = random_batch(4, classes, 1);
      b.logits.select(1, 3).fill_(far);
      expect_formula(b, 1e-5);
      b.logits = torch::where(b.logits > 0, torch::full({}, far), torch::full({}, -far));
      expect_formula(b, 1e-3);  // float resolves 1e-3 at 1e4
    }
}

TEST_P(LocalLoss, StandsClassesOfOneSizeAndAClientWithoutData) {
  for (const double size : {20, 1, 0}) {
    auto b = random_batch(7, 10, 3);
    b.counts.fill_(size);
    expect_formula(b, 1e-5);
  }
}

TEST_P(LocalLoss, ZeroStrengthIsCrossEntropyToTheBit) {
  const auto b = random_batch(7, 10, 3);
  TensorMap memory;
  const auto [loss, gradient] = (*make(0))(b, memory);
  const auto plain = softmax_loss(b);
  EXPECT_TRUE(torch::equal(loss, plain.loss) && torch::equal(gradient, plain.gradient));
}

TEST_P(LocalLoss, SlotsAreTrainedSideBySide) {
  const auto a = random_batch(5, 10, 3);
  auto other = random_batch(5, 10, 2);
  other.counts = torch::arange(40, 30, -1, torch::kFloat);
  LogitBatch both{.logits = torch::stack({a.logits, other.logits}), .labels = torch::stack({a.labels, other.labels})};
  both.counts = torch::stack({a.counts, other.counts});
  other.uniforms = torch::rand({50});
  both.uniforms = torch::stack({a.uniforms, other.uniforms});
  both.mask = torch::ones({2, 5});
  TensorMap memory;
  const auto objective = make(GetParam().value);
  const auto together = (*objective)(both, memory);
  EXPECT_TRUE(torch::allclose(together.gradient[0], (*objective)(a, memory).gradient, 1e-5, 1e-8));
  EXPECT_TRUE(torch::allclose(together.gradient[1], (*objective)(other, memory).gradient, 1e-5, 1e-8));
}

INSTANTIATE_TEST_SUITE_P(
    Losses, LocalLoss,
    testing::Values(LossCase{"focal", "gamma", 2, focal<4>}, LossCase{"focal", "gamma", 1, focal<2>},
                    LossCase{"focal", "gamma", 0.5, focal<1>}, LossCase{"balanced-softmax", "tau", 1.5, balanced},
                    LossCase{"fedlc", "tau", 0.7, fedlc}, LossCase{"ldam", "max_margin", 0.5, ldam},
                    LossCase{"gcl", "noise", 0.4, gcl}));

class CosineLoss : public testing::TestWithParam<LossCase> {};

TEST_P(CosineLoss, TakesItsStrengthOnTheScaleOfItsHead) {
  const auto& [name, strength, value, formula] = GetParam();
  const auto as_is = made(name, {{strength, value}});
  const auto gentle = made(name, {{strength, value * 3}, {"scale", 10}});
  EXPECT_TRUE(as_is->head().kind == HeadKind::cosine && !as_is->head().bias);
  EXPECT_EQ(as_is->head().scale, 30);
  EXPECT_EQ(gentle->head().scale, 10);
  const auto b = random_batch(7, 10, 3);
  TensorMap memory;
  const auto expected = (*as_is)(b, memory), got = (*gentle)(b, memory);
  EXPECT_TRUE(torch::allclose(got.gradient, expected.gradient, 1e-5, 1e-7));
  EXPECT_TRUE(torch::allclose(got.loss, expected.loss));
}

TEST_P(CosineLoss, HasTheAuthorsStrength) {
  const auto b = random_batch(7, 10, 3);
  TensorMap memory;
  const auto by_default = made(GetParam().name, {}), by_name = made(GetParam().name, {{GetParam().strength, 0.5}});
  EXPECT_TRUE(torch::equal((*by_default)(b, memory).gradient, (*by_name)(b, memory).gradient));
}

INSTANTIATE_TEST_SUITE_P(Losses, CosineLoss,
                         testing::Values(LossCase{"ldam", "max_margin", 0.5, ldam},
                                         LossCase{"gcl", "noise", 0.4, gcl}));

TEST(Gcl, DrawsItsCloudFromTheRandomsOfEachSlot) {
  const auto gcl = made("gcl", {});
  const auto one = random_batch(5, 10, 3);
  LogitBatch both{.logits = torch::stack({one.logits, one.logits}), .labels = torch::stack({one.labels, one.labels})};
  both.counts = torch::stack({one.counts, one.counts});
  both.randoms = {Random(1, Purpose::noise, 1), Random(1, Purpose::noise, 2)};
  ASSERT_EQ(gcl->uniforms(5, 10), 50);
  TensorMap memory;
  const auto drawn = (*gcl)(both, memory).gradient;
  EXPECT_FALSE(torch::allclose(drawn[0], drawn[1]));
  both.uniforms = torch::empty({2, 50});
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t n = 0; n < 50; ++n) both.uniforms[i][n].fill_(both.randoms[static_cast<size_t>(i)].uniform());
  EXPECT_TRUE(torch::equal(drawn, (*gcl)(both, memory).gradient));
}

}  // namespace fedgrab::local_losses_test
