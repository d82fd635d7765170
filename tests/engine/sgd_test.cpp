#include "engine/sgd.h"

#include <gtest/gtest.h>

#include "fedgrab/core/random.h"

namespace fedgrab::sgd_test {

/// A norm, a hidden layer, a frozen head in the middle of what is trained and a second head: 3 ranges or more.
std::shared_ptr<const Model> model() {
  const Layer norm{.kind = LayerKind::batch_norm, .name = "bn1", .in = 3, .out = 3};
  const Layer flatten{.kind = LayerKind::flatten, .input = 0};
  const Layer hidden{.kind = LayerKind::linear, .name = "hidden", .input = 1, .in = 3, .out = 5};
  return make_model({"tiny", {3, 1, 1}, {norm, flatten, hidden}, 5},
                    {Head{.role = Role::frozen}, Head{.name = "probe"}}, 4);
}

torch::Tensor random_numbers(int64_t n, uint32_t stream) {
  Random random(1, Purpose::noise, stream);
  auto values = torch::empty({n});
  for (int64_t i = 0; i < n; ++i) values.data_ptr<float>()[i] = static_cast<float>(random.normal());
  return values;
}

class SgdStep : public testing::Test {
 protected:
  SgdStep() : network_(model()), global_(initial_state(network_.state().model, 1)), sgd_(network_.model()) {
    network_.load(global_);
    network_.gradient().zero_();
  }

  /// As backward() would leave it: nothing for what is not trained.
  void set_gradient(const torch::Tensor& gradient) {
    for (const auto& p : network_.model().parameters)
      if (p.trained()) network_.gradient().narrow(0, p.offset, p.size).copy_(gradient.narrow(0, p.offset, p.size));
  }
  void step(const TrainParams& params, double lr, const LocalProblem& problem = {}) {
    sgd_.step(network_, global_, problem, params, lr);
  }
  float weight() const { return network_.state().view("hidden.weight")[0][0].item<float>(); }

  Network network_;
  State global_;
  Sgd sgd_;
};

class AgainstTorch : public SgdStep, public testing::WithParamInterface<TrainParams> {};
INSTANTIATE_TEST_SUITE_P(Settings, AgainstTorch,
                         testing::Values(TrainParams{.momentum = 0}, TrainParams{.momentum = 0.9},
                                         TrainParams{.momentum = 0.9, .weight_decay = 0.05},
                                         TrainParams{.momentum = 0.5, .weight_decay = 0.01, .clip = 3},
                                         TrainParams{.momentum = 0.5, .clip = 1000}));

TEST_P(AgainstTorch, TenStepsAgree) {
  const auto& params = GetParam();
  std::map<std::string, torch::Tensor> theirs;
  std::vector<torch::Tensor> list;
  for (const auto& p : network_.model().parameters)
    if (p.trained()) list.push_back(theirs[p.name] = global_.view(p).clone().requires_grad_());
  torch::optim::SGD optimizer(
      list, torch::optim::SGDOptions(0.1).momentum(params.momentum).weight_decay(params.weight_decay));
  for (uint32_t i = 0; i < 10; ++i) {
    const auto gradient = random_numbers(network_.model().size, i);
    set_gradient(gradient);
    step(params, 0.1);
    for (auto& [name, tensor] : theirs) {
      const auto& p = network_.model().find(name);
      tensor.mutable_grad() = gradient.narrow(0, p.offset, p.size).view(p.shape).clone();
    }
    if (params.clip > 0) torch::nn::utils::clip_grad_norm_(list, params.clip);
    optimizer.step();
  }
  for (const auto& [name, tensor] : theirs)
    EXPECT_TRUE(torch::allclose(network_.state().view(name), tensor, 1e-5, 1e-6)) << name;
}

TEST_F(SgdStep, LeavesFrozenParametersAndRunningStatisticsToTheBit) {
  const TrainParams params{.momentum = 0.9, .weight_decay = 0.1};
  network_.gradient().fill_(1);  // even if someone writes a gradient there
  LocalProblem problem{.proximal = 1};
  problem.correction = torch::ones({network_.model().size});
  for (int i = 0; i < 3; ++i) step(params, 0.1, problem);
  for (const auto& p : network_.model().parameters)
    EXPECT_EQ(torch::equal(network_.state().view(p), global_.view(p)), !p.trained()) << p.name;
}

TEST_F(SgdStep, LeavesTheGradientAtZero) {
  set_gradient(random_numbers(network_.model().size, 1));
  step({}, 0.1);
  EXPECT_TRUE((network_.gradient() == 0).all().item<bool>());
  set_gradient(random_numbers(network_.model().size, 1));
  step({}, 0.1, {.proximal = 0.1});
  EXPECT_TRUE((network_.gradient() == 0).all().item<bool>());
}

TEST_F(SgdStep, PullsTowardsTheGlobalModel) {
  // w = 1, w_global = 3: g + μ(w − w_global) = 0.5 + 0.25 · (1 − 3) = 0, then a step of nothing.
  network_.state().view("hidden.weight").fill_(1);
  global_.view("hidden.weight").fill_(3);
  network_.gradient().fill_(0.5F);
  step({.momentum = 0}, 0.1, {.proximal = 0.25});
  EXPECT_FLOAT_EQ(weight(), 1);
  // With g = 0 and μ = 0.25 it moves by lr · 0.5.
  step({.momentum = 0}, 0.1, {.proximal = 0.25});
  EXPECT_FLOAT_EQ(weight(), 1.05F);
}

TEST_F(SgdStep, AddsTheCorrection) {
  network_.state().view("hidden.weight").fill_(1);
  LocalProblem problem;
  problem.correction = torch::zeros({network_.model().size});
  problem.correction.narrow(0, network_.model().find("hidden.weight").offset, 1).fill_(-2);
  step({.momentum = 0}, 0.1, problem);
  EXPECT_FLOAT_EQ(weight(), 1.2F);
  EXPECT_EQ(network_.state().view("hidden.weight")[0][1].item<float>(), 1);
}

TEST(SgdOfAuxiliaryHeads, HasNeitherProximalTermNorCorrection) {
  const Layer hidden{.kind = LayerKind::linear, .name = "hidden", .input = 0, .in = 3, .out = 5};
  const Layer flatten{.kind = LayerKind::flatten};
  const auto model =
      make_model({"tiny", {3, 1, 1}, {flatten, hidden}, 5}, {Head{}, Head{.name = "probe", .detached = true}}, 4);
  Network network(model);
  State global = initial_state(model, 1);
  network.load(global);
  network.gradient().zero_();
  Sgd sgd(*model);
  global.flat.add_(1);
  LocalProblem problem{.proximal = 0.5};
  problem.correction = torch::ones({model->size});
  const State before = network.state().clone();
  sgd.step(network, global, problem, {.momentum = 0}, 0.1);
  for (const auto& p : model->parameters) {
    const double moved = p.name.starts_with("probe.") ? 0 : -0.1 * (0.5 * -1 + 1);
    EXPECT_TRUE(torch::allclose(network.state().view(p), before.view(p) + moved, 1e-5, 1e-6)) << p.name;
  }
  network.gradient().fill_(1);  // its own gradient moves it all the same
  const State again = network.state().clone();
  sgd.step(network, global, {}, {.momentum = 0}, 0.1);
  EXPECT_TRUE(torch::allclose(network.state().view("probe.weight"), again.view("probe.weight") - 0.1, 1e-5, 1e-6));
}

TEST_F(SgdStep, ClipsTheGradientAndNotThePenalty) {
  // ‖g‖ = 4 · √(trained values); clipped to 1, each entry is 1/√n. The pull of the decay comes on top.
  network_.state().flat.fill_(1);
  network_.gradient().fill_(4);
  int64_t trained = 0;
  for (const auto& p : network_.model().parameters) trained += p.trained() ? p.size : 0;
  step({.momentum = 0, .weight_decay = 0.5, .clip = 1}, 1.0);
  EXPECT_FLOAT_EQ(weight(), 1 - (1 / std::sqrt(static_cast<float>(trained)) + 0.5F));
}

TEST_F(SgdStep, DecaysNormsAndBiasesUnlessToldOtherwise) {
  for (const double proximal : {0.0, 0.25})
    for (const bool decay_norms : {true, false}) {
      network_.state().flat.fill_(1);
      global_.flat.fill_(1);
      step({.momentum = 0, .weight_decay = 0.5, .decay_norms = decay_norms}, 0.1, {.proximal = proximal});
      for (const auto& p : network_.model().parameters) {
        if (!p.trained()) continue;
        const bool decays = decay_norms || p.kind == ParameterKind::weight;
        const auto expected = torch::full(p.shape, decays ? 0.95F : 1.0F);
        EXPECT_TRUE(torch::allclose(network_.state().view(p), expected)) << p.name;
      }
    }
}

TEST_F(SgdStep, LeavesASmallGradientAlone) {
  network_.state().flat.fill_(1);
  set_gradient(torch::full({network_.model().size}, 0.01F));
  step({.momentum = 0, .clip = 1}, 1.0);
  EXPECT_FLOAT_EQ(weight(), 0.99F);
}

TEST_F(SgdStep, ResetForgetsTheMomentum) {
  network_.state().flat.fill_(1);
  set_gradient(torch::ones({network_.model().size}));
  step({.momentum = 0.5}, 0.1);
  EXPECT_FLOAT_EQ(weight(), 0.9F);
  step({.momentum = 0.5}, 0.1);  // v = 0.5
  EXPECT_FLOAT_EQ(weight(), 0.85F);
  sgd_.reset();
  step({.momentum = 0.5}, 0.1);
  EXPECT_FLOAT_EQ(weight(), 0.85F);
}

}  // namespace fedgrab::sgd_test
