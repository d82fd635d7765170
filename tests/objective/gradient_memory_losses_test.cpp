/// EQL v2 and Seesaw, which remember what a client has met: followed step by step by loops written out in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "fedgrab/objective/objective.h"

namespace fedgrab::gradient_memory_losses_test {

using Params = std::map<std::string, double>;

/// A client's loss in double, with what it remembers. Batches are [batch, classes], every sample present.
class Reference {
 public:
  virtual ~Reference() = default;
  virtual LogitLoss step(const LogitBatch& batch) = 0;
  virtual TensorMap memory() const = 0;

 protected:
  static torch::Tensor tensor(const std::vector<double>& values) { return torch::tensor(values, torch::kDouble); }
};

double sigmoid(double z) { return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z)); }

class EqlV2Reference : public Reference {
 public:
  EqlV2Reference(Params params, size_t classes)
      : params_(std::move(params)), positive_(classes), negative_(classes), ratio_(classes, 100) {}

  LogitLoss step(const LogitBatch& batch) override {
    const auto samples = batch.logits.size(0), classes = batch.logits.size(1);
    const auto logits = batch.logits.to(torch::kDouble);
    const auto gradient = torch::zeros_like(logits);
    const auto z = logits.accessor<double, 2>();
    auto slope = gradient.accessor<double, 2>();
    double loss = 0;
    for (int64_t j = 0; j < classes; ++j) {
      const auto c = static_cast<size_t>(j);
      const double against = sigmoid(params_["gamma"] * (ratio_[c] - params_["mu"]));
      const double in_favour = 1 + params_["alpha"] * (1 - against);
      for (int64_t i = 0; i < samples; ++i) {
        const bool is_label = batch.labels[i].item<int64_t>() == j;
        const double wrong = is_label ? -z[i][j] : z[i][j];
        const double weight = is_label ? in_favour : against;
        const double pull = weight * sigmoid(wrong);
        loss += weight * (std::max(wrong, 0.0) + std::log1p(std::exp(-std::abs(wrong)))) / double(samples);
        slope[i][j] = (is_label ? -pull : pull) / double(samples);
        (is_label ? positive_ : negative_)[c] += pull;
      }
      ratio_[c] = positive_[c] / (negative_[c] + 1e-10);
    }
    return {torch::tensor(loss, torch::kDouble), gradient};
  }

  TensorMap memory() const override {
    return {{"eqlv2.positive", tensor(positive_)}, {"eqlv2.negative", tensor(negative_)}};
  }

 private:
  Params params_;
  std::vector<double> positive_, negative_, ratio_;
};

class SeesawReference : public Reference {
 public:
  SeesawReference(Params params, size_t classes) : params_(std::move(params)), met_(classes) {}

  LogitLoss step(const LogitBatch& batch) override {
    const auto samples = batch.logits.size(0), classes = batch.logits.size(1);
    const auto logits = batch.logits.to(torch::kDouble).requires_grad_();
    const auto probability = logits.detach().softmax(1);  // a constant to the gradient, as is the factor made of it
    const auto factor = torch::ones_like(probability);
    const auto share = probability.accessor<double, 2>();
    auto seesaw = factor.accessor<double, 2>();
    for (int64_t i = 0; i < samples; ++i) met_[size_t(batch.labels[i].item<int64_t>())] += 1;
    for (int64_t i = 0; i < samples; ++i)
      for (int64_t j = 0; j < classes; ++j) {
        const auto y = batch.labels[i].item<int64_t>();
        if (j == y) continue;
        const double rarer = std::max(met_[size_t(j)], 1.0) / std::max(met_[size_t(y)], 1.0);
        const double likelier = share[i][j] / std::max(share[i][y], 0.01);
        if (rarer < 1) seesaw[i][j] *= std::pow(rarer, params_["p"]);
        if (likelier > 1) seesaw[i][j] *= std::pow(likelier, params_["q"]);
      }
    const auto loss = torch::nn::functional::cross_entropy(logits + factor.log(), batch.labels);
    loss.backward();
    return {loss.detach(), logits.grad()};
  }

  TensorMap memory() const override { return {{"seesaw.met", tensor(met_)}}; }

 private:
  Params params_;
  std::vector<double> met_;
};

std::unique_ptr<Objective> made(const std::string& name, const Params& params) {
  Schema schema;
  declare_all(objectives(), schema);
  Config config(schema);
  for (const auto& [param, value] : params) config.set("objective." + name + "." + param, value);
  return make_objective(name, config);
}

/// Labels thin out towards the last class, as on a client; most of many classes are never met.
LogitBatch random_batch(int64_t size, int64_t classes, double scale = 3) {
  return {.logits = torch::randn({size, classes}) * scale,
          .labels = (torch::rand({size}).square() * classes).to(torch::kLong)};
}

struct MemoryCase {
  const char* name;
  Params params;
  std::unique_ptr<Reference> (*reference)(const Params& params, size_t classes);
};
void PrintTo(const MemoryCase& c, std::ostream* out) {
  *out << c.name;
  for (const auto& [param, value] : c.params) *out << " " << param << " " << value;
}
template <class Kind>
std::unique_ptr<Reference> refer(const Params& params, size_t classes) {
  return std::make_unique<Kind>(params, classes);
}

class MemoryLoss : public testing::TestWithParam<MemoryCase> {
 protected:
  MemoryLoss() { torch::manual_seed(3); }
  std::unique_ptr<Reference> reference(int64_t classes) const {
    return GetParam().reference(GetParam().params, static_cast<size_t>(classes));
  }
  /// A batch of one client against its reference, memory included.
  void expect_step(const LogitBatch& batch, TensorMap& memory, Reference& reference, double tolerance = 1e-5) const {
    const auto got = (*objective)(batch, memory);
    const auto expected = reference.step(batch);
    expect_close(got.loss, expected.loss, tolerance, tolerance);
    expect_close(got.gradient, expected.gradient, tolerance, tolerance * 1e-1 / double(batch.logits.size(0)));
    const auto remembered = reference.memory();
    ASSERT_EQ(memory.size(), remembered.size());
    for (const auto& [name, value] : remembered) {
      expect_close(memory.at(name), value, tolerance, tolerance);
      EXPECT_EQ(memory.at(name).scalar_type(), torch::kDouble);  // float stops counting at 2^24
    }
  }
  static void expect_close(const torch::Tensor& got, const torch::Tensor& expected, double relative, double absolute) {
    ASSERT_EQ(got.sizes(), expected.sizes());
    EXPECT_TRUE(torch::allclose(got.to(torch::kDouble), expected.to(torch::kDouble), relative, absolute))
        << "off by " << (got - expected).abs().max().item<double>();
  }
  static TensorMap copy_of(const TensorMap& memory) {
    TensorMap copy;
    for (const auto& [name, value] : memory) copy[name] = value.clone();
    return copy;
  }

  std::unique_ptr<Objective> objective = made(GetParam().name, GetParam().params);
};

TEST_P(MemoryLoss, FollowsItsReferenceFromStepToStep) {
  for (const int64_t classes : {10, 1000}) {
    TensorMap memory;
    const auto expected = reference(classes);
    for (int64_t step = 0; step < 24; ++step) {
      SCOPED_TRACE(testing::Message() << classes << " classes, step " << step);
      expect_step(random_batch(1 + step * 5 % 13, classes), memory, *expected);
    }
  }
}

TEST_P(MemoryLoss, StandsOneSampleAndOneClass) {
  for (const int64_t samples : {1, 4})
    for (const int64_t classes : {1, 10}) {
      TensorMap memory;
      const auto expected = reference(classes);
      for (int64_t step = 0; step < 5; ++step) expect_step(random_batch(samples, classes), memory, *expected);
    }
}

TEST_P(MemoryLoss, StandsExtremeLogits) {
  for (const int64_t classes : {10, 1000})
    for (const double far : {1e4, -1e4}) {
      TensorMap memory;
      const auto expected = reference(classes);
      for (int64_t step = 0; step < 4; ++step) expect_step(random_batch(6, classes), memory, *expected);
      auto b = random_batch(6, classes, 1);
      b.logits.select(1, 3).fill_(far);
      expect_step(b, memory, *expected);
      b.logits = torch::where(b.logits > 0, torch::full({}, far), torch::full({}, -far));
      expect_step(b, memory, *expected, 1e-3);                         // float resolves 1e-3 at 1e4
      expect_step(random_batch(6, classes), memory, *expected, 1e-3);  // and the memory goes on
    }
}

TEST_P(MemoryLoss, OfMaskedSlotsIsThatOfSeparateClients) {
  TensorMap memory;
  std::vector<TensorMap> alone(2);
  for (int64_t step = 0; step < 8; ++step) {
    auto both = random_batch(2 * 5, 10);
    both.logits = both.logits.view({2, 5, 10});
    both.labels = both.labels.view({2, 5});
    const std::vector<int64_t> present{5, step % 5 + 1};
    both.mask = torch::zeros({2, 5});
    for (int64_t i = 0; i < 2; ++i) both.mask[i].narrow(0, 0, present[size_t(i)]).fill_(1);
    const auto together = (*objective)(both, memory);
    for (int64_t i = 0; i < 2; ++i) {
      const auto n = present[size_t(i)];
      const auto expected = (*objective)(
          {.logits = both.logits[i].narrow(0, 0, n), .labels = both.labels[i].narrow(0, 0, n)}, alone[size_t(i)]);
      expect_close(together.loss[i], expected.loss, 1e-5, 1e-6);
      expect_close(together.gradient[i].narrow(0, 0, n), expected.gradient, 1e-5, 1e-7);
      EXPECT_EQ(together.gradient[i].narrow(0, n, 5 - n).abs().sum().item<double>(), 0);
      for (const auto& [name, value] : alone[size_t(i)]) expect_close(memory.at(name)[i], value, 1e-6, 0);
    }
  }
}

TEST_P(MemoryLoss, LeavesTheMemoryOfAnEmptySlotUntouched) {
  TensorMap memory;
  LogitBatch both{.logits = torch::randn({2, 5, 10}), .labels = torch::randint(10, {2, 5})};
  for (int64_t step = 0; step < 3; ++step) (*objective)(both, memory);
  const auto before = copy_of(memory);
  both.mask = torch::stack({torch::ones({5}), torch::zeros({5})});
  const auto result = (*objective)(both, memory);
  EXPECT_EQ(result.loss[1].item<double>(), 0);
  EXPECT_EQ(result.gradient[1].abs().sum().item<double>(), 0);
  for (const auto& [name, value] : before) {
    EXPECT_TRUE(torch::equal(memory.at(name)[1], value[1]));
    EXPECT_FALSE(torch::equal(memory.at(name)[0], value[0]));
  }
}

TEST_P(MemoryLoss, StartsAfreshAfterAnEmptyBatch) {
  TensorMap memory, fresh;
  auto batch = random_batch(5, 10);
  batch.mask = torch::zeros({5});
  (*objective)(batch, memory);
  batch.mask = torch::Tensor();
  const auto got = (*objective)(batch, memory), expected = (*objective)(batch, fresh);
  EXPECT_TRUE(torch::equal(got.loss, expected.loss) && torch::equal(got.gradient, expected.gradient));
}

TEST_P(MemoryLoss, ContinuesExactlyFromASavedMemory) {
  TensorMap memory;
  for (int64_t step = 0; step < 5; ++step) (*objective)(random_batch(6, 10), memory);
  auto saved = copy_of(memory);
  const auto batch = random_batch(6, 10);
  const auto expected = (*objective)(batch, memory);
  const auto got = (*made(GetParam().name, GetParam().params))(batch, saved);
  EXPECT_TRUE(torch::equal(got.loss, expected.loss) && torch::equal(got.gradient, expected.gradient));
}

INSTANTIATE_TEST_SUITE_P(
    Losses, MemoryLoss,
    testing::Values(MemoryCase{"eqlv2", {{"gamma", 12}, {"mu", 0.8}, {"alpha", 4}}, refer<EqlV2Reference>},
                    MemoryCase{"eqlv2", {{"gamma", 3}, {"mu", 0.2}, {"alpha", 1}}, refer<EqlV2Reference>},
                    MemoryCase{"seesaw", {{"p", 0.8}, {"q", 2}}, refer<SeesawReference>},
                    MemoryCase{"seesaw", {{"p", 1.5}, {"q", 0}}, refer<SeesawReference>},
                    MemoryCase{"seesaw", {{"p", 0}, {"q", 0.5}}, refer<SeesawReference>}));

class Seeded : public testing::Test {
 protected:
  Seeded() { torch::manual_seed(4); }
};
class EqlV2 : public Seeded {};
class Seesaw : public Seeded {};

TEST_F(EqlV2, HasThePapersDefaults) {
  TensorMap memory, expected;
  const auto by_default = made("eqlv2", {}), by_name = made("eqlv2", {{"gamma", 12}, {"mu", 0.8}, {"alpha", 4}});
  for (int64_t step = 0; step < 5; ++step) {
    const auto batch = random_batch(6, 10);
    EXPECT_TRUE(torch::equal((*by_default)(batch, memory).gradient, (*by_name)(batch, expected).gradient));
  }
}

TEST_F(EqlV2, BeginsAsBinaryCrossEntropyToTheBit) {
  const auto batch = random_batch(7, 10);
  TensorMap memory;
  const auto [loss, gradient] = (*made("eqlv2", {}))(batch, memory);
  const auto plain = sigmoid_loss(batch);
  EXPECT_TRUE(torch::equal(gradient, plain.gradient));
  EXPECT_TRUE(torch::allclose(loss, plain.loss));
}

TEST_F(EqlV2, StaysBinaryCrossEntropyToTheBitWhereTheExtraTermsVanish) {
  // alpha 0 leaves the positives alone; a steep curve far left of every ratio leaves the negatives alone
  const auto objective = made("eqlv2", {{"gamma", 1000}, {"mu", 0}, {"alpha", 0}});
  TensorMap memory;
  for (int64_t step = 0; step < 20; ++step) {
    auto batch = random_batch(10, 10, 0.5);
    batch.labels = torch::randperm(10);  // every class keeps a ratio well above 0
    EXPECT_TRUE(torch::equal((*objective)(batch, memory).gradient, sigmoid_loss(batch).gradient)) << step;
  }
}

TEST_F(EqlV2, WithoutSteepnessWeighsAlikeWhateverWasCollected) {
  const auto objective = made("eqlv2", {{"gamma", 0}, {"alpha", 0}});
  TensorMap memory;
  for (int64_t step = 0; step < 20; ++step) {
    const auto batch = random_batch(6, 10);
    const auto plain = sigmoid_loss(batch).gradient;
    EXPECT_TRUE(torch::equal((*objective)(batch, memory).gradient, torch::where(plain < 0, plain, plain / 2))) << step;
  }
}

TEST_F(EqlV2, SparesAClassWithoutSamplesAndPushesItsFirst) {
  TensorMap memory;
  const auto objective = made("eqlv2", {});
  LogitBatch batch{.logits = torch::zeros({1, 2}), .labels = torch::zeros({1}, torch::kLong)};
  (*objective)(batch, memory);
  const double spared = 1 / (1 + std::exp(12 * 0.8));
  EXPECT_NEAR((*objective)(batch, memory).gradient[0][1].item<double>(), 0.5 * spared, 1e-10);
  batch.labels.fill_(1);
  EXPECT_NEAR((*objective)(batch, memory).gradient[0][1].item<double>(), -0.5 * (1 + 4 * (1 - spared)), 1e-6);
}

TEST_F(Seesaw, HasThePapersDefaults) {
  TensorMap memory, expected;
  const auto by_default = made("seesaw", {}), by_name = made("seesaw", {{"p", 0.8}, {"q", 2}});
  for (int64_t step = 0; step < 5; ++step) {
    const auto batch = random_batch(6, 10);
    EXPECT_TRUE(torch::equal((*by_default)(batch, memory).gradient, (*by_name)(batch, expected).gradient));
  }
}

TEST_F(Seesaw, WithoutBothStrengthsIsCrossEntropyToTheBit) {
  const auto objective = made("seesaw", {{"p", 0}, {"q", 0}});
  TensorMap memory;
  for (int64_t step = 0; step < 5; ++step) {
    const auto batch = random_batch(7, 10);
    const auto [loss, gradient] = (*objective)(batch, memory);
    const auto plain = softmax_loss(batch);
    EXPECT_TRUE(torch::equal(loss, plain.loss) && torch::equal(gradient, plain.gradient));
  }
}

TEST_F(Seesaw, IsCrossEntropyToTheBitOnClassesMetAlikeAndSamplesWellToldApart) {
  const auto objective = made("seesaw", {});
  TensorMap memory;
  for (int64_t step = 0; step < 5; ++step) {
    auto batch = random_batch(10, 10, 1);
    batch.labels = torch::randperm(10);
    batch.logits += 10 * one_hot(batch);  // no class is likelier than the label
    const auto [loss, gradient] = (*objective)(batch, memory);
    const auto plain = softmax_loss(batch);
    EXPECT_TRUE(torch::equal(loss, plain.loss) && torch::equal(gradient, plain.gradient));
  }
}

TEST_F(Seesaw, CountsTheBatchItIsGiven) {
  // ten samples of class 0 against none of class 1: already their own first step is mitigated
  TensorMap memory;
  const LogitBatch batch{.logits = torch::zeros({10, 2}), .labels = torch::zeros({10}, torch::kLong)};
  const auto [loss, gradient] = (*made("seesaw", {{"p", 1}, {"q", 0}}))(batch, memory);
  EXPECT_NEAR(loss.item<double>(), std::log(1.1), 1e-6);
  EXPECT_NEAR(gradient[0][1].item<double>(), 0.1 / 1.1 / 10, 1e-7);
}

}  // namespace fedgrab::gradient_memory_losses_test
