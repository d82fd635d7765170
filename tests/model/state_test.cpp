#include "fedgrab/model/state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/scratch_folder.h"

namespace fedgrab::state_test {

std::shared_ptr<const Model> model_of(const std::string& name, std::vector<Head> heads = {Head{}}) {
  return make_model(make_architecture(name, {3, 32, 32}), std::move(heads), 10);
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) { return torch::equal(a, b); }

/// A convolution with bias, a wide hidden layer, a head: 27, 1024 and 128 inputs each.
std::shared_ptr<const Model> layers_with_biases() {
  const Layer convolution{
      .kind = LayerKind::convolution, .name = "conv1", .in = 3, .out = 16, .kernel = 3, .padding = 1, .bias = true};
  const Layer flatten{.kind = LayerKind::flatten, .input = 0};
  const Layer hidden{.kind = LayerKind::linear, .name = "hidden", .input = 1, .in = 1024, .out = 128};
  return make_model({"plain", {3, 8, 8}, {convolution, flatten, hidden}, 128}, {Head{}}, 10);
}

TEST(InitialState, IsUniformUpToOneOverTheRootOfFanIn) {
  const State state = initial_state(layers_with_biases(), 1);
  const auto weights = state.view("hidden.weight").to(torch::kDouble);  // 131,072 values
  const double bound = 1.0 / 32;
  EXPECT_LE(weights.abs().max().item<double>(), bound);
  EXPECT_GT(weights.max().item<double>(), 0.999 * bound);
  EXPECT_LT(weights.min().item<double>(), -0.999 * bound);
  EXPECT_NEAR(weights.mean().item<double>(), 0, 0.01 * bound);
  EXPECT_NEAR(weights.std().item<double>(), bound / std::sqrt(3.0), 0.01 * bound);
  const auto eighths = weights.histc(8, -bound, bound) / (131072.0 / 8);
  EXPECT_LT((eighths - 1).abs().max().item<double>(), 0.03);
}

TEST(InitialState, BiasesHaveTheBoundOfTheirLayer) {
  const State state = initial_state(layers_with_biases(), 1);
  for (const auto& [name, fan_in] :
       std::vector<std::pair<std::string, double>>{{"conv1", 27}, {"hidden", 1024}, {"fc", 128}})
    for (const char* part : {".weight", ".bias"}) {
      const double widest = state.view(name + part).abs().max().item<double>();
      EXPECT_LE(widest, 1 / std::sqrt(fan_in)) << name << part;
      EXPECT_GT(widest, 0.6 / std::sqrt(fan_in)) << name << part;
    }
}

TEST(InitialState, BatchNormStartsAsTheIdentity) {
  const State state = initial_state(model_of("resnet8"), 1);
  for (const auto* name : {"bn1", "layer2.0.bn2", "layer3.0.downsample.1"}) {
    const std::string prefix = name;
    EXPECT_TRUE((state.view(prefix + ".weight") == 1).all().item<bool>());
    EXPECT_TRUE((state.view(prefix + ".bias") == 0).all().item<bool>());
    EXPECT_TRUE((state.view(prefix + ".running_mean") == 0).all().item<bool>());
    EXPECT_TRUE((state.view(prefix + ".running_var") == 1).all().item<bool>());
  }
}

TEST(InitialState, FollowsFromTheSeedAlone) {
  const auto model = model_of("resnet8");
  EXPECT_TRUE(same_bits(initial_state(model, 5).flat, initial_state(model, 5).flat));
  EXPECT_FALSE(same_bits(initial_state(model, 5).view("conv1.weight"), initial_state(model, 6).view("conv1.weight")));
}

TEST(InitialState, AnotherHeadChangesNothingElse) {
  const State plain = initial_state(model_of("cnn"), 1);
  const State probed = initial_state(model_of("cnn", {Head{}, Head{.name = "probe"}}), 1);
  for (const auto& p : plain.model->parameters) EXPECT_TRUE(same_bits(probed.view(p.name), plain.view(p))) << p.name;
  EXPECT_FALSE(same_bits(probed.view("probe.weight"), probed.view("fc.weight")));
}

TEST(InitialState, GivesEachOwnerItsOwnValues) {
  const State state = initial_state(model_of("cnn"), 1);
  const auto& head = state.model->find("fc.weight");
  const auto own = torch::empty(head.shape);
  initialise(own, head, 1, 0);
  EXPECT_TRUE(same_bits(own, state.view(head)));
  initialise(own, head, 1, 1);
  EXPECT_FALSE(same_bits(own, state.view(head)));
}

TEST(State, ViewsWriteThrough) {
  const State state = initial_state(model_of("cnn"), 1);
  const State copy = state.clone();
  state.named().at("fc.bias").fill_(3);
  EXPECT_TRUE((state.view("fc.bias") == 3).all().item<bool>());
  EXPECT_FALSE((copy.view("fc.bias") == 3).any().item<bool>());
}

class Assign : public testing::Test {
 protected:
  void expect_refusal(const std::vector<std::string>& fragments) {
    std::vector<std::string> all{"weights.file"};
    all.insert(all.end(), fragments.begin(), fragments.end());
    expect_error(
        Fault::checkpoint, [&] { state_.assign(tensors_, "weights.file"); }, all);
  }

  State state_ = initial_state(model_of("resnet8"), 1);
  TensorMap tensors_ = initial_state(state_.model, 2).named();
};

TEST_F(Assign, TakesTensorsOfTheSameNames) {
  state_.assign(tensors_, "weights.file");
  EXPECT_TRUE(same_bits(state_.flat, initial_state(state_.model, 2).flat));
}

TEST_F(Assign, CopiesSoThatTheSourceStaysApart) {
  state_.assign(tensors_, "weights.file");
  tensors_["fc.bias"].fill_(9);
  EXPECT_FALSE((state_.view("fc.bias") == 9).any().item<bool>());
}

TEST_F(Assign, ConvertsOtherNumberTypes) {
  tensors_["fc.bias"] = torch::full({10}, 0.5, torch::kDouble);
  tensors_["bn1.weight"] = torch::full({16}, 0.25, torch::kHalf);
  state_.assign(tensors_, "weights.file");
  EXPECT_TRUE((state_.view("fc.bias") == 0.5).all().item<bool>());
  EXPECT_TRUE((state_.view("bn1.weight") == 0.25).all().item<bool>());
}

TEST_F(Assign, PassesOverWhatTheModelDoesNotHave) {
  tensors_["bn1.num_batches_tracked"] = torch::zeros({}, torch::kLong);
  tensors_["server/momentum"] = torch::zeros({3});
  state_.assign(tensors_, "weights.file");
}

TEST_F(Assign, NamesTheMissingTensor) {
  tensors_.erase("layer2.0.bn1.running_var");
  expect_refusal({"layer2.0.bn1.running_var"});
}

TEST_F(Assign, NamesBothShapesOfAMisshapenOne) {
  tensors_["fc.weight"] = torch::zeros({100, 64});
  expect_refusal({"fc.weight", "[100, 64]", "[10, 64]"});
  // The number of values is not enough.
  tensors_["fc.weight"] = torch::zeros({64, 10});
  expect_refusal({"fc.weight", "[64, 10]"});
}

TEST_F(Assign, NamesTheTensorThatIsNotFinite) {
  tensors_["layer1.0.conv1.weight"][3][2][1][0] = NAN;
  expect_refusal({"layer1.0.conv1.weight", "not finite"});
}

TEST_F(Assign, RefusesDoublesThatOverflow) {
  tensors_["fc.bias"] = torch::full({10}, 1e300, torch::kDouble);
  expect_refusal({"fc.bias", "not finite"});
}

// ---- simplex

TEST(MakeEtf, PutsEveryTwoRowsAtTheSameAngle) {
  auto weight = torch::empty({10, 64});
  make_etf(weight, 1);
  const auto cosines = weight.mm(weight.t());
  const auto expected = torch::full({10, 10}, -1.0 / 9).fill_diagonal_(1);
  EXPECT_LT((cosines - expected).abs().max().item<double>(), 1e-6);
  auto again = torch::empty({10, 64}), other = torch::empty({10, 64});
  make_etf(again, 1);
  make_etf(other, 2);
  EXPECT_TRUE(same_bits(weight, again));
  EXPECT_FALSE(same_bits(weight, other));
}

TEST(MakeEtf, PointsAnywhereWhereThereIsNoSimplex) {
  auto weight = torch::empty({10, 4});
  make_etf(weight, 1);
  EXPECT_LT((weight.norm(2, {1}) - 1).abs().max().item<double>(), 1e-6);
  EXPECT_LT(weight.mm(weight.t()).triu(1).max().item<double>(), 0.999);
}

}  // namespace fedgrab::state_test
