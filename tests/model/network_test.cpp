#include "fedgrab/model/network.h"

#include <gtest/gtest.h>

#include "tests/model/torchvision_reference.h"

namespace fedgrab::network_test {

/// No backbone at all: the features are the pixels.
std::shared_ptr<const Model> pixels_only(std::vector<Head> heads, int64_t pixels, int64_t classes) {
  Architecture architecture{"pixels", {pixels, 1, 1}, {Layer{LayerKind::flatten, ""}}, pixels};
  return make_model(std::move(architecture), std::move(heads), classes);
}

std::shared_ptr<const Model> model_of(const std::string& name, ImageShape input, std::vector<Head> heads) {
  return make_model(make_architecture(name, input), std::move(heads), 4);
}

torch::Tensor gradient_of(const Network& network, const std::string& name) {
  return State{network.state().model, network.gradient()}.view(name);
}

double largest(const torch::Tensor& t) { return t.abs().max().item<double>(); }

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) { return torch::equal(a, b); }

// --- Against torchvision ---

void fill(const Network& network) {
  for (const auto& p : network.model().parameters) network.state().view(p).copy_(reference_tensor(p.name, p.shape));
}

/// The reference keeps nine digits.
void expect_close(double ours, const nlohmann::json& theirs, double relative, double absolute,
                  const std::string& what) {
  const double expected = theirs;
  EXPECT_NEAR(ours, expected, relative * std::abs(expected) + absolute) << what;
}

void expect_logits(const torch::Tensor& logits, const nlohmann::json& expected, double tolerance,
                   const std::string& what) {
  const auto ours = logits.to(torch::kDouble);
  for (int64_t sample = 0; sample < static_cast<int64_t>(expected.size()); ++sample) {
    const auto& row = expected[static_cast<size_t>(sample)];
    expect_close(ours[sample].norm().item<double>(), row.at("norm"), tolerance, tolerance, what + ", norm");
    for (size_t c = 0; c < row.at("first").size(); ++c)
      expect_close(ours[sample][static_cast<int64_t>(c)].item<double>(), row.at("first")[c], tolerance, tolerance,
                   what + ", sample " + std::to_string(sample) + ", class " + std::to_string(c));
  }
}

class Torchvision : public testing::TestWithParam<const char*> {
 protected:
  const nlohmann::json& reference_ = torchvision_reference(GetParam());
};
INSTANTIATE_TEST_SUITE_P(ResNets, Torchvision, testing::Values("resnet18", "resnet34", "resnet50"),
                         [](const auto& network) { return std::string(network.param); });

TEST_P(Torchvision, ComputesTheSamePixels) {  // else nothing below means anything
  const auto pixels = reference_images(reference_).flatten();
  for (int64_t i = 0; i < 4; ++i)
    expect_close(pixels[i].item<double>(), reference_.at("pixels")[static_cast<size_t>(i)], 1e-8, 0, "pixel");
}

TEST_P(Torchvision, AgreesOnLogitsLossAndOneStep) {
  Network network(reference_model(reference_), torch::kDouble);
  fill(network);
  const State before = network.state().clone();
  const auto images = reference_images(reference_).to(torch::kDouble);
  expect_logits(network.forward(images.narrow(0, 0, 2)).logits.front(), reference_.at("eval"), 1e-7, "before");

  const auto output = network.forward_training(images);
  const auto log_probability = output.logits.front().detach().log_softmax(1);
  const auto labels = torch::arange(images.size(0)) % network.model().classes;
  const auto answers = torch::zeros_like(log_probability).scatter_(1, labels.unsqueeze(1), 1.0);
  expect_close(-(log_probability * answers).sum().item<double>() / 4, reference_.at("loss"), 1e-7, 0, "loss");
  network.backward(output, {(log_probability.exp() - answers) / 4});

  for (const auto& p : network.model().parameters) {  // momentum starts at zero, so the first step has none
    if (!p.trained()) continue;
    const auto weights = network.state().view(p);
    weights.sub_(gradient_of(network, p.name) + 5e-4 * weights, 0.05);
  }
  ASSERT_EQ(reference_.at("tensors").size(), network.model().parameters.size());
  for (const auto& tensor : reference_.at("tensors")) {
    const std::string name = tensor.at("name");
    const auto after = network.state().view(name).flatten();
    const double norm = after.norm().item<double>();
    const auto moved = after - before.view(name).flatten();
    expect_close(norm, tensor.at("norm"), 1e-7, 0, name + ", norm");
    expect_close(after.sum().item<double>(), tensor.at("sum"), 1e-7, 1e-7 * norm, name + ", sum");
    expect_close(moved.norm().item<double>(), tensor.at("moved"), 1e-6, 0, name + ", moved");
    for (int64_t k = 0; k < 4; ++k)
      expect_close(after[k * (after.numel() - 1) / 3].item<double>(), tensor.at("values")[static_cast<size_t>(k)], 1e-7,
                   1e-9, name + ", value " + std::to_string(k));
  }
  expect_logits(network.forward(images.narrow(0, 0, 2)).logits.front(), reference_.at("eval_after"), 1e-6, "after");
}

TEST(TorchvisionInSinglePrecision, AgreesOnLogits) {
  for (const auto* name : {"resnet18", "resnet34"}) {
    const auto& reference = torchvision_reference(name);
    Network network(reference_model(reference));
    fill(network);
    const auto images = reference_images(reference).narrow(0, 0, 2);
    expect_logits(network.forward(images).logits.front(), reference.at("eval"), 1e-4, name);
  }
}

// --- Dropout ---

TEST(Dropout, SetsItsShareToZeroAndKeepsTheMean) {
  const auto factors = dropout_factors({50, 40, 10, 10}, 3, 0.25, Random(1, Purpose::dropout, 5, 6, 7));
  EXPECT_NEAR((factors == 0).to(torch::kFloat).mean().item<double>(), 0.25, 0.003);
  EXPECT_NEAR(factors.mean().item<double>(), 1, 0.005);
  EXPECT_EQ(factors.max().item<float>(), static_cast<float>(1 / 0.75));
}

TEST(Dropout, IsAFunctionOfStepLayerAndPlace) {
  const Random random(1, Purpose::dropout, 5, 6, 7), next(1, Purpose::dropout, 5, 6, 8);
  const auto factors = dropout_factors({10, 7, 3, 3}, 3, 0.5, random);
  EXPECT_TRUE(same_bits(dropout_factors({10, 7, 3, 3}, 3, 0.5, random), factors));
  EXPECT_TRUE(same_bits(dropout_factors({4, 7, 3, 3}, 3, 0.5, random), factors.narrow(0, 0, 4)));
  EXPECT_FALSE(torch::equal(dropout_factors({10, 7, 3, 3}, 4, 0.5, random), factors));
  EXPECT_FALSE(torch::equal(dropout_factors({10, 7, 3, 3}, 3, 0.5, next), factors));
}

TEST(Dropout, ActsInTrainingAloneAndOnTheGradientAlike) {
  const Layer drop{.kind = LayerKind::dropout, .rate = 0.5};
  const Random random(1, Purpose::dropout);
  Network network(make_model({"drop", {8, 1, 1}, {drop, Layer{LayerKind::flatten, "", 0}}, 8}, {Head{}}, 2));
  network.load(initial_state(network.state().model, 1));
  const auto images = torch::ones({3, 8, 1, 1});
  EXPECT_TRUE(torch::equal(network.forward(images).features, torch::ones({3, 8})));
  const auto output = network.forward_training(images, random);
  const auto factors = dropout_factors({3, 8}, 0, 0.5, random);
  EXPECT_TRUE(torch::equal(output.features, factors));
  network.backward(output, {torch::ones({3, 2})});
  EXPECT_TRUE(torch::allclose(gradient_of(network, "fc.weight")[0], factors.sum(0)));
}

// --- BatchNorm ---

TEST(BatchNorm, TrainingUsesTheBatchAndMovesTheRunningStatistics) {
  const Layer norm{.kind = LayerKind::batch_norm, .name = "bn1", .in = 1, .out = 1};
  Network network(make_model({"norm", {1, 1, 1}, {norm, Layer{LayerKind::flatten, "", 0}}, 1}, {Head{}}, 2));
  network.load(initial_state(network.state().model, 1));
  const auto images = torch::tensor({1.0F, 3.0F}).view({2, 1, 1, 1});
  const auto features = network.forward_training(images).features.flatten();
  EXPECT_NEAR(features[0].item<double>(), -1, 1e-4);
  EXPECT_NEAR(features[1].item<double>(), 1, 1e-4);
  EXPECT_FLOAT_EQ(network.state().view("bn1.running_mean").item<float>(), 0.1F * 2);
  EXPECT_FLOAT_EQ(network.state().view("bn1.running_var").item<float>(), 0.9F + 0.1F * 2);  // unbiased, as PyTorch's
}

TEST(BatchNorm, LeftWithOneValueUsesItsRunningStatisticsAndLeavesThemAlone) {
  const Layer norm{.kind = LayerKind::batch_norm, .name = "bn1", .in = 2, .out = 2};
  Network network(make_model({"norm", {2, 1, 1}, {norm, Layer{LayerKind::flatten, "", 0}}, 2}, {Head{}}, 2));
  network.load(initial_state(network.state().model, 1));
  network.state().view("bn1.running_mean").copy_(torch::tensor({1.0F, 2.0F}));
  network.state().view("bn1.running_var").fill_(4);
  const auto features = network.forward_training(torch::tensor({5.0F, 8.0F}).view({1, 2, 1, 1})).features.flatten();
  EXPECT_NEAR(features[0].item<double>(), 2, 1e-5);
  EXPECT_NEAR(features[1].item<double>(), 3, 1e-5);
  EXPECT_TRUE(same_bits(network.state().view("bn1.running_mean"), torch::tensor({1.0F, 2.0F})));
  EXPECT_TRUE(same_bits(network.state().view("bn1.running_var"), torch::full({2}, 4.0F)));
}

TEST(BatchNorm, OneSampleTrainsANetworkWhoseLastStageIsOnePixel) {
  Network network(model_of("resnet8", {3, 4, 4}, {Head{}}));
  network.load(initial_state(network.state().model, 1));
  const auto output = network.forward_training(torch::rand({1, 3, 4, 4}));
  network.backward(output, {torch::ones({1, 4})});
  EXPECT_TRUE(network.gradient().isfinite().all().item<bool>());
  EXPECT_GT(largest(gradient_of(network, "conv1.weight")), 0);
  EXPECT_TRUE(network.state().flat.isfinite().all().item<bool>());
  EXPECT_GT(largest(network.state().view("bn1.running_mean")), 0);           // 4 x 4 values
  EXPECT_EQ(largest(network.state().view("layer3.0.bn2.running_mean")), 0);  // one
  EXPECT_EQ(largest(network.state().view("layer3.0.bn2.running_var") - 1.0), 0);
}

// --- Heads ---

TEST(Head, LinearIsWeightTimesFeaturesPlusBias) {
  Network network(pixels_only({Head{}}, 2, 2));
  network.state().view("fc.weight").copy_(torch::tensor({{1.0F, 0.0F}, {2.0F, -1.0F}}));
  network.state().view("fc.bias").copy_(torch::tensor({0.5F, 0.0F}));
  const auto logits = network.forward(torch::tensor({3.0F, 4.0F}).view({1, 2, 1, 1})).logits.front();
  EXPECT_TRUE(same_bits(logits, torch::tensor({{3.5F, 2.0F}})));
}

TEST(Head, CosineSeesDirectionsOnly) {
  Network network(pixels_only({Head{.kind = HeadKind::cosine, .bias = false}}, 2, 3));
  network.state().view("fc.weight").copy_(torch::tensor({{10.0F, 0.0F}, {0.0F, 0.1F}, {-6.0F, -8.0F}}));
  for (const float length : {1.0F, 100.0F}) {
    const auto images = (length * torch::tensor({3.0F, 4.0F})).view({1, 2, 1, 1});
    const auto logits = network.forward(images).logits.front().flatten();
    EXPECT_NEAR(logits[0].item<double>(), 0.6, 1e-6);
    EXPECT_NEAR(logits[1].item<double>(), 0.8, 1e-6);
    EXPECT_NEAR(logits[2].item<double>(), -1, 1e-6);
  }
}

TEST(Head, CosineSurvivesFeaturesThatAreAllZero) {
  Network network(pixels_only({Head{.kind = HeadKind::cosine, .bias = false}}, 2, 2));
  network.state().view("fc.weight").fill_(1);
  const auto output = network.forward_training(torch::zeros({1, 2, 1, 1}));
  network.backward(output, {torch::ones({1, 2})});
  EXPECT_EQ(largest(output.logits.front()), 0);
  EXPECT_TRUE(network.gradient().isfinite().all().item<bool>());
}

TEST(Head, ShiftedGivesAClearAnswerALeadOfOneWhateverTheLengthOfTheFeatures) {
  const Head head{.scale = 3, .shift = {0, 0, 0, 0.25F}};
  Network network(pixels_only({head}, 2, 4));
  network.state().view("fc.weight").copy_(torch::tensor({{1.0F, 0.0F}, {0.0F, 0.0F}, {0.0F, 0.0F}, {0.0F, 0.0F}}));
  network.state().view("fc.bias").zero_();
  for (const float length : {0.01F, 100.0F}) {
    const auto images = (length * torch::tensor({3.0F, 4.0F})).view({1, 2, 1, 1});
    const auto logits = network.forward(images).logits.front().flatten();
    EXPECT_NEAR((logits[0] - logits[1]).item<double>(), 3, 1e-5);
    EXPECT_NEAR((logits[3] - logits[1]).item<double>(), 0.75, 1e-5);
  }
  const auto none = network.forward(torch::zeros({1, 2, 1, 1})).logits.front();
  EXPECT_TRUE(none.isfinite().all().item<bool>());
}

class Heads : public testing::Test {
 protected:
  static Network network_with(std::vector<Head> heads) {
    Network network(model_of("cnn", {3, 8, 8}, std::move(heads)));
    network.load(initial_state(network.state().model, 1));
    return network;
  }
  const torch::Tensor images_ = torch::linspace(-1, 1, 2 * 3 * 8 * 8).view({2, 3, 8, 8});
  const torch::Tensor pull_ = torch::linspace(-1, 1, 2 * 4).view({2, 4});
};

TEST_F(Heads, DetachedOneSendsNothingBack) {
  Network network = network_with({Head{}, Head{.name = "probe", .detached = true}});
  const auto output = network.forward_training(images_);
  network.backward(output, {{}, pull_});
  for (const auto& p : network.model().parameters) {
    if (p.name.starts_with("probe."))
      EXPECT_GT(largest(gradient_of(network, p.name)), 0) << p.name;
    else
      EXPECT_EQ(largest(gradient_of(network, p.name)), 0) << p.name;
  }
}

TEST_F(Heads, AttachedOneReachesTheBackbone) {
  Network network = network_with({Head{}, Head{.name = "probe"}});
  network.backward(network.forward_training(images_), {{}, pull_});
  EXPECT_GT(largest(gradient_of(network, "conv1.weight")), 0);
  EXPECT_EQ(largest(gradient_of(network, "fc.weight")), 0);
}

TEST_F(Heads, FrozenOneGetsNoGradientButPassesItOn) {
  Network frozen = network_with({Head{.role = Role::frozen}});
  Network trained = network_with({Head{}});
  frozen.backward(frozen.forward_training(images_), {pull_});
  trained.backward(trained.forward_training(images_), {pull_});
  EXPECT_EQ(largest(gradient_of(frozen, "fc.weight")), 0);
  EXPECT_EQ(largest(gradient_of(frozen, "fc.bias")), 0);
  EXPECT_GT(largest(gradient_of(trained, "fc.weight")), 0);
  EXPECT_TRUE(same_bits(gradient_of(frozen, "conv1.weight"), gradient_of(trained, "conv1.weight")));
}

// --- Gradients ---

TEST_F(Heads, GradientsAddUpInTheFlatBuffer) {
  Network network = network_with({Head{}});
  const auto* buffer = network.gradient().data_ptr<float>();
  network.backward(network.forward_training(images_), {pull_});
  const auto once = network.gradient().clone();
  network.backward(network.forward_training(images_), {pull_});
  EXPECT_EQ(network.gradient().data_ptr<float>(), buffer);
  EXPECT_TRUE(same_bits(network.gradient(), 2 * once));
  network.gradient().zero_();
  network.backward(network.forward_training(images_), {pull_});
  EXPECT_TRUE(same_bits(network.gradient(), once));
}

TEST_F(Heads, AGradientOnFeaturesDoesWhatTheSameOneThroughTheHeadDoes) {
  Network network = network_with({Head{}});
  network.backward(network.forward_training(images_), {pull_});
  const auto through_head = gradient_of(network, "conv1.weight").clone();
  network.gradient().zero_();
  network.backward(network.forward_training(images_), {{}}, pull_.matmul(network.state().view("fc.weight")));
  EXPECT_LT(largest(gradient_of(network, "conv1.weight") - through_head), 1e-6 * largest(through_head));
  EXPECT_EQ(largest(gradient_of(network, "fc.weight")), 0);
}

TEST_F(Heads, NothingToSendBackChangesNothing) {
  Network network = network_with({Head{}});
  network.backward(network.forward_training(images_), {{}});
  EXPECT_EQ(largest(network.gradient()), 0);
}

TEST_F(Heads, EvaluationKeepsNoGraphAndMovesNoStatistics) {
  Network network(model_of("resnet8", {3, 8, 8}, {Head{}}));
  network.load(initial_state(network.state().model, 1));
  const auto before = network.state().clone();
  EXPECT_FALSE(network.forward(images_).logits.front().requires_grad());
  EXPECT_TRUE(same_bits(network.state().flat, before.flat));
}

TEST_F(Heads, WritingToTheStateChangesTheAnswers) {
  Network network = network_with({Head{}});
  network.state().view("fc.weight").zero_();
  network.state().view("fc.bias").fill_(7);
  EXPECT_TRUE(same_bits(network.forward(images_).logits.front(), torch::full({2, 4}, 7.0F)));
}

}  // namespace fedgrab::network_test
