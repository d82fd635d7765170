#include "fedgrab/objective/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/data/scratch_folder.h"

namespace fedgrab::objective_test {

using Rule = LogitLoss (*)(const LogitBatch&);

struct Form {
  const char* name;
  Rule rule;
  /// Loss of one sample, written out in double.
  double (*loss)(const std::vector<double>& z, size_t label);
  double (*gradient)(const std::vector<double>& z, size_t label, size_t j);
  /// The same formula for autograd to differentiate: one loss per sample.
  torch::Tensor (*formula)(const torch::Tensor& logits, const torch::Tensor& labels);
};

double log_sum_exp(const std::vector<double>& z) {
  const double top = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const double value : z) sum += std::exp(value - top);
  return top + std::log(sum);
}

double sigmoid(double z) { return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z)); }
double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

const Form softmax_form{"softmax", softmax_loss,
                        [](const std::vector<double>& z, size_t label) { return log_sum_exp(z) - z[label]; },
                        [](const std::vector<double>& z, size_t label, size_t j) {
                          return std::exp(z[j] - log_sum_exp(z)) - (j == label ? 1 : 0);
                        },
                        [](const torch::Tensor& logits, const torch::Tensor& labels) {
                          namespace F = torch::nn::functional;
                          return F::cross_entropy(logits, labels, F::CrossEntropyFuncOptions().reduction(torch::kNone));
                        }};

const Form sigmoid_form{
    "sigmoid", sigmoid_loss,
    [](const std::vector<double>& z, size_t label) {
      double sum = 0;
      for (size_t j = 0; j < z.size(); ++j) sum += softplus(j == label ? -z[j] : z[j]);
      return sum;
    },
    [](const std::vector<double>& z, size_t label, size_t j) { return j == label ? -sigmoid(-z[j]) : sigmoid(z[j]); },
    [](const torch::Tensor& logits, const torch::Tensor& labels) {
      const auto target = torch::one_hot(labels, logits.size(1)).to(torch::kDouble);
      return torch::binary_cross_entropy_with_logits(logits, target, {}, {}, at::Reduction::None).sum(1);
    }};

class PlainLoss : public testing::TestWithParam<Form> {
 protected:
  static torch::Tensor normal(at::IntArrayRef shape, uint32_t stream, double scale = 3) {
    Random random(5, Purpose::noise, stream);
    auto values = torch::empty(shape);
    for (int64_t i = 0; i < values.numel(); ++i)
      values.data_ptr<float>()[i] = static_cast<float>(scale * random.normal());
    return values;
  }
  static torch::Tensor labels(at::IntArrayRef shape, int64_t classes, uint32_t stream) {
    Random random(6, Purpose::noise, stream);
    auto values = torch::empty(shape, torch::kLong);
    for (int64_t i = 0; i < values.numel(); ++i)
      values.data_ptr<int64_t>()[i] = static_cast<int64_t>(random.below(static_cast<uint64_t>(classes)));
    return values;
  }

  LogitLoss run(const LogitBatch& batch) const { return GetParam().rule(batch); }

  /// Against the closed form: the mean of what each sample gives, times its weight.
  void expect_closed_form(const LogitBatch& batch) const {
    const auto [loss, gradient] = run(batch);
    const auto rows = batch.logits.size(0), classes = batch.logits.size(1);
    ASSERT_EQ(gradient.sizes(), batch.logits.sizes());
    double expected = 0;
    for (int64_t i = 0; i < rows; ++i) {
      std::vector<double> z(static_cast<size_t>(classes));
      for (int64_t j = 0; j < classes; ++j) z[static_cast<size_t>(j)] = batch.logits[i][j].item<double>();
      const auto label = batch.labels[i].item<int64_t>();
      const double weight =
          (batch.weights.defined() ? batch.weights[i].item<double>() : 1.0) / static_cast<double>(rows);
      expected += weight * GetParam().loss(z, static_cast<size_t>(label));
      for (int64_t j = 0; j < classes; ++j)
        // σ − 1 has float's absolute precision at 1, whatever is left of it
        ASSERT_NEAR(gradient[i][j].item<double>(),
                    weight * GetParam().gradient(z, static_cast<size_t>(label), static_cast<size_t>(j)), 3e-7 * weight)
            << "sample " << i << ", class " << j;
    }
    EXPECT_NEAR(loss.item<double>(), expected, 2e-6 * std::max(1.0, std::abs(expected)));
  }

  void expect_autograd(const LogitBatch& batch) const {
    const auto leaf = batch.logits.to(torch::kDouble).requires_grad_();
    const auto each = GetParam().formula(leaf, batch.labels);
    const auto mean = (batch.weights.defined() ? each * batch.weights : each).mean();
    mean.backward();
    const auto [loss, gradient] = run(batch);
    EXPECT_TRUE(torch::allclose(gradient.to(torch::kDouble), leaf.grad(), 1e-5, 1e-7));
    EXPECT_NEAR(loss.item<double>(), mean.item<double>(), 2e-6 * std::max(1.0, std::abs(mean.item<double>())));
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, PlainLoss, testing::Values(softmax_form, sigmoid_form),
                         [](const auto& form) { return form.param.name; });

TEST_P(PlainLoss, FollowsTheClosedFormAndAutograd) {
  for (const int64_t classes : {10, 1000}) {
    const LogitBatch batch{.logits = normal({7, classes}, 1), .labels = labels({7}, classes, 1)};
    expect_closed_form(batch);
    expect_autograd(batch);
  }
}

TEST_P(PlainLoss, HandlesOneClassAndOneSample) {
  expect_closed_form({.logits = normal({4, 1}, 2), .labels = torch::zeros({4}, torch::kLong)});
  expect_closed_form({.logits = normal({1, 10}, 3), .labels = labels({1}, 10, 3)});
  expect_closed_form({.logits = normal({1, 1}, 4), .labels = torch::zeros({1}, torch::kLong)});
}

TEST_P(PlainLoss, StaysFiniteAndRightAtExtremeLogits) {
  const auto logits =
      torch::tensor({{1e4F, -1e4F, 0.0F}, {-1e4F, 1e4F, 0.0F}, {1e4F, 1e4F, 1e4F}, {-1e4F, -1e4F, -1e4F}});
  for (int64_t label = 0; label < 3; ++label)
    expect_closed_form({.logits = logits, .labels = torch::full({4}, label, torch::kLong)});
  // a certain right answer costs nothing and pulls nothing
  const auto certain = run({.logits = torch::tensor({{1e4F, -1e4F}}), .labels = torch::zeros({1}, torch::kLong)});
  EXPECT_EQ(certain.loss.item<float>(), 0.0F);
  EXPECT_EQ(certain.gradient.abs().max().item<float>(), 0.0F);
}

TEST_P(PlainLoss, WeighsSamples) {
  LogitBatch batch{.logits = normal({5, 10}, 5), .labels = labels({5}, 10, 5)};
  batch.weights = torch::tensor({0.0F, 0.5F, 1.0F, 2.0F, 7.0F});
  expect_closed_form(batch);
  expect_autograd(batch);
  EXPECT_EQ(run(batch).gradient[0].abs().max().item<float>(), 0.0F);
}

TEST_P(PlainLoss, OfAMaskedBatchIsThatOfTheSamplesPresent) {
  LogitBatch batch{.logits = normal({2, 5, 10}, 6), .labels = labels({2, 5}, 10, 6)};
  batch.weights = torch::rand({2, 5});
  batch.mask = torch::tensor({{1.0F, 1.0F, 1.0F, 1.0F, 1.0F}, {1.0F, 1.0F, 1.0F, 0.0F, 0.0F}});
  const auto together = run(batch);
  for (const int64_t slot : {0, 1}) {
    const int64_t present = slot == 0 ? 5 : 3;
    const auto first = [&](const torch::Tensor& t) { return t[slot].narrow(0, 0, present); };
    const auto alone =
        run({.logits = first(batch.logits), .labels = first(batch.labels), .weights = first(batch.weights)});
    EXPECT_NEAR(together.loss[slot].item<float>(), alone.loss.item<float>(), 1e-5F);
    EXPECT_TRUE(torch::allclose(first(together.gradient), alone.gradient, 1e-6, 1e-8));
  }
  EXPECT_EQ(together.gradient[1].narrow(0, 3, 2).abs().max().item<float>(), 0.0F);
}

TEST_P(PlainLoss, OfAnEmptySlotIsZero) {
  LogitBatch batch{.logits = normal({2, 3, 4}, 7), .labels = labels({2, 3}, 4, 7)};
  batch.mask = torch::tensor({{1.0F, 1.0F, 1.0F}, {0.0F, 0.0F, 0.0F}});
  const auto [loss, gradient] = run(batch);
  EXPECT_EQ(loss[1].item<float>(), 0.0F);
  EXPECT_EQ(gradient[1].abs().max().item<float>(), 0.0F);
  EXPECT_GT(gradient[0].abs().max().item<float>(), 0.0F);
}

TEST_P(PlainLoss, OfSlotsIsThatOfSeparateCalls) {
  const LogitBatch batch{.logits = normal({3, 4, 10}, 8), .labels = labels({3, 4}, 10, 8)};
  const auto together = run(batch);
  ASSERT_EQ(together.loss.sizes(), at::IntArrayRef({3}));
  for (int64_t slot = 0; slot < 3; ++slot) {
    const auto alone = run({.logits = batch.logits[slot], .labels = batch.labels[slot]});
    EXPECT_FLOAT_EQ(together.loss[slot].item<float>(), alone.loss.item<float>());
    EXPECT_TRUE(torch::allclose(together.gradient[slot], alone.gradient, 1e-6, 1e-8));
  }
}

TEST(Objective, IsFoundByNameAndKeepsNoGraph) {
  Schema schema;
  declare_all(objectives(), schema);
  const Config config(schema);
  TensorMap memory;
  const auto leaf = torch::randn({2, 3}).requires_grad_();
  const LogitBatch batch{.logits = leaf, .labels = torch::tensor({0, 2}, torch::kLong)};
  const auto [loss, gradient] = (*make_objective("softmax", config))(batch, memory);
  EXPECT_FALSE(loss.requires_grad() || gradient.requires_grad());
  EXPECT_TRUE(torch::equal(gradient, softmax_loss({.logits = leaf.detach(), .labels = batch.labels}).gradient));
  EXPECT_TRUE(memory.empty());
  expect_error(Fault::usage, [&] { make_objective("sotfmax", config); }, {"objective.name", "sotfmax"});
}

TEST(Objective, RefusesLabelsOfAnotherShape) {
  Schema schema;
  declare_all(objectives(), schema);
  TensorMap memory;
  const auto objective = make_objective("sigmoid", Config(schema));
  const LogitBatch batch{.logits = torch::zeros({2, 3}), .labels = torch::zeros({3}, torch::kLong)};
  EXPECT_THROW((*objective)(batch, memory), c10::Error);
}

TEST(Uniform, ReadsOneStreamPerSlot) {
  LogitBatch batch{.logits = torch::zeros({2, 1, 4})};
  batch.randoms = {Random(1, Purpose::gate, 0), Random(1, Purpose::gate, 1)};
  const auto numbers = uniform(batch, 4);
  ASSERT_EQ(numbers.sizes(), at::IntArrayRef({2, 4}));
  for (uint32_t slot = 0; slot < 2; ++slot) {
    Random stream(1, Purpose::gate, slot);
    for (int j = 0; j < 4; ++j) EXPECT_EQ(numbers[slot][j].item<float>(), stream.uniform());
  }
}

TEST(Uniform, TakesNumbersDrawnAlready) {
  LogitBatch batch{.logits = torch::zeros({2, 1, 4})};
  batch.uniforms = torch::rand({2, 6});
  EXPECT_TRUE(torch::equal(uniform(batch, 4), batch.uniforms.narrow(-1, 0, 4)));
}

}  // namespace fedgrab::objective_test
