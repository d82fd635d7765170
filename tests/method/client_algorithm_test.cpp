/// Client algorithms, on problems small enough to work out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/method/tiny.h"
#include "tests/tensors.h"

namespace fedgrab::client_algorithm_test {

/// Two weights and nothing else: one feature, two classes, no bias.
std::shared_ptr<const Model> two_weights() {
  return make_model({"tiny", {1, 1, 1}, {Layer{LayerKind::flatten, "", -1}}, 1}, {Head{.bias = false}}, 2);
}

/// BatchNorm of one channel beside a frozen, a personal and an auxiliary head: only bn1.weight and bn1.bias are both
/// optimised and shared by an algorithm.
std::shared_ptr<const Model> mixed_model() {
  return tiny_model({Head{.role = Role::frozen}, Head{.name = "own", .role = Role::personal},
                     Head{.name = "probe", .detached = true}},
                    1, 2);
}

/// F(w) = Σ_i a_i/2 (w_i − b_i)², its gradient known everywhere.
struct Bowl {
  std::vector<double> a, b;
  int64_t samples = 1;
  int64_t steps = 3;

  torch::Tensor gradient(const torch::Tensor& w) const {
    return torch::tensor(a, torch::kDouble) * (w - torch::tensor(b, torch::kDouble));
  }
};

/// A federation of bowls that trains as engines do: v ← m v + g + λ(w − w₀) + correction.
class Bowls {
 public:
  Bowls(Composition method, std::vector<Bowl> bowls)
      : federation_(std::move(method), two_weights(), clients_of(bowls)),
        bowls_(std::move(bowls)),
        mean_(bowls_.size()) {
    federation_.global.flat.copy_(torch::tensor({2.0F, -1.0F}));
  }

  void round(const std::vector<int64_t>& cohort, double momentum = 0) {
    const auto context = federation_.begin(1, cohort);
    const auto start = global().flat.to(torch::kDouble);
    Sums sums;
    for (size_t place = 0; place < cohort.size(); ++place) {
      const auto k = static_cast<size_t>(cohort[place]);
      const Bowl& bowl = bowls_[k];
      const auto client = federation_.client(context, place);
      const auto problem = federation_.method.configure(client);
      const auto correction = problem.correction.defined() ? problem.correction.to(torch::kDouble) : torch::zeros({2});
      auto w = start.clone(), v = torch::zeros_like(w), path = torch::zeros_like(w);
      double reach = 0;  // ‖a‖₁: the factors with which each step's gradient enters the move
      for (int64_t step = 0; step < bowl.steps; ++step) {
        const auto g = bowl.gradient(w);
        double factor = 0;
        for (int64_t later = step; later < bowl.steps; ++later) factor += std::pow(momentum, later - step);
        path += factor * g;
        reach += factor;
        v = momentum * v + g + problem.proximal * (w - start) + correction;
        w = w - lr * v;
      }
      mean_[k] = path / reach;
      const State local{global().model, w.to(torch::kFloat)};
      federation_.send(client, {local, bowl.steps, lr, momentum}, sums);
      last_local = w;
    }
    federation_.global = federation_.method.aggregate(context, sums, federation_.server);
  }
  const State& global() const { return federation_.global; }
  const torch::Tensor& server(const std::string& name) const { return federation_.server.at(name); }
  const TensorMap& client(size_t k) const { return federation_.clients[k].state; }
  /// The average of the gradients that a client met in its last round, each by its part in the move.
  const torch::Tensor& mean_gradient(size_t k) const { return mean_[k]; }

  static constexpr double lr = 0.1;
  torch::Tensor last_local;

 private:
  static std::vector<TinyClient> clients_of(const std::vector<Bowl>& bowls) {
    std::vector<TinyClient> clients;
    for (const Bowl& bowl : bowls) clients.push_back({.samples = bowl.samples});
    return clients;
  }

  TinyFederation federation_;
  std::vector<Bowl> bowls_;
  std::vector<torch::Tensor> mean_;
};

/// The local problem of a client with this state.
LocalProblem problem_of(const Composition& method, const State& global, TensorMap& state,
                        const TensorMap& server = no_tensors) {
  const auto round = method.begin_round(1, 1, {0}, {1}, 1, global, server);
  return method.configure({round, 0, 1, {}, state});
}

/// What such a client sends.
std::vector<Payload> sent_by(const Composition& method, const State& global, TensorMap& state,
                             const LocalResult& result) {
  const auto round = method.begin_round(1, 1, {0}, {1}, 1, global, no_tensors);
  return method.after_training({round, 0, 1, {}, state}, result);
}

torch::Tensor pair(double a, double b) { return torch::tensor({a, b}, torch::kDouble); }

// ---- FedIR

class FedIrWeights : public testing::Test {
 protected:
  torch::Tensor of(const std::vector<int64_t>& all, const std::vector<int64_t>& own) {
    auto method = compose("fedir");
    EXPECT_TRUE(method.needs().global_counts);
    method.learn_counts(all);
    TensorMap state;
    const auto round = method.begin_round(1, 1, {0}, {1}, 1, global_, no_tensors);
    return method.configure({round, 0, 1, own, state}).class_weights;
  }
  State global_ = initial_state(two_weights(), 1);
};

TEST_F(FedIrWeights, AreTheFederationsShareOverTheClients) {
  // shares 0.6, 0.3, 0.1 of the federation; 0.25, 0.25, 0.5 of the client
  expect_near(of({60, 30, 10}, {5, 5, 10}), torch::tensor({2.4, 1.2, 0.2}), 1e-6);
}

TEST_F(FedIrWeights, AreZeroForAClassTheClientLacks) {
  expect_near(of({60, 30, 10}, {3, 0, 1}), torch::tensor({0.8, 0.0, 0.4}), 1e-6);
  expect_near(of({60, 40, 0}, {1, 1, 0}), torch::tensor({1.2, 0.8, 0.0}), 1e-6);  // nobody has it: 0/0
}

TEST_F(FedIrWeights, AreOneForAClientLikeTheFederation) {
  expect_near(of({60, 30, 10}, {6, 3, 1}), torch::ones({3}), 1e-6);
}

TEST_F(FedIrWeights, LeaveServerAndMessagesFedAvgs) {
  auto method = compose("fedir");
  method.learn_counts(std::vector<int64_t>{6, 4});
  TensorMap state;
  const auto sent = sent_by(method, global_, state, {global_, 1, 0.1, 0});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].name, "state");
  EXPECT_EQ(sent[0].weighting, Weighting::server_weights);
  EXPECT_TRUE(state.empty());
}

// ---- FedProx

TEST(FedProx, PullsTowardsTheModelReceivedAndIsFedAvgWithoutPull) {
  const State global = initial_state(two_weights(), 1);
  TensorMap state;
  const auto problem = problem_of(compose("fedprox"), global, state);
  EXPECT_EQ(problem.proximal, 0.01);
  EXPECT_FALSE(problem.correction.defined());
  EXPECT_EQ(problem_of(compose("fedprox", {{"client.prox.mu", "0"}}), global, state).proximal, 0);
  const auto sent = sent_by(compose("fedprox"), global, state, {global, 1, 0.1, 0});
  ASSERT_EQ(sent.size(), 1U);  // the server's part is FedAvg's
  EXPECT_TRUE(state.empty());
}

TEST(FedProx, FeelsTheProximalTermFromTheSecondStepOn) {
  // From (2, −1): w₁ = (1.8, −0.8); then g = (1.8, −1.6) and 0.5 (w₁ − w₀) = (−0.1, 0.1) on top.
  Bowls bowls(compose("fedprox", {{"client.prox.mu", "0.5"}}), {{{1, 2}, {0, 0}, 1, 2}});
  bowls.round({0});
  expect_near(bowls.last_local, pair(1.8 - 0.1 * 1.7, -0.8 - 0.1 * -1.5));
  expect_near(bowls.global().flat, bowls.last_local);
}

// ---- SCAFFOLD

const std::vector<Bowl> three_bowls{{{1, 2}, {1, 0}, 5, 3}, {{3, 1}, {-1, 2}, 3, 5}, {{2, 4}, {0, 1}, 2, 1}};
const std::string control = "scaffold.control";

TEST(Scaffold, FirstRoundByHand) {
  // a = (1, 2), b = 0, from (2, −1), one step of 0.1: w = (1.8, −0.8), and c_k is the one gradient.
  Bowls bowls(compose("scaffold"), {{{1, 2}, {0, 0}, 1, 1}, {{1, 1}, {0, 0}, 1, 1}});
  bowls.round({0});
  expect_near(bowls.global().flat, pair(1.8, -0.8));
  expect_near(bowls.client(0).at(control), pair(2, -2));
  expect_near(bowls.server(control), pair(1, -1));  // 1/N of it, though all of the cohort took part
}

TEST(Scaffold, SecondRoundByHand) {
  // c = (1, −1) and c_k = (2, −2) from the round above; the gradient at (1.8, −0.8) is (1.8, −1.6)
  Bowls bowls(compose("scaffold"), {{{1, 2}, {0, 0}, 1, 1}, {{1, 1}, {0, 0}, 1, 1}});
  bowls.round({0});
  bowls.round({0});
  expect_near(bowls.global().flat, pair(1.8 - 0.1 * (1.8 - 1), -0.8 - 0.1 * (-1.6 + 1)));
  expect_near(bowls.client(0).at(control), pair(1.8, -1.6));  // the gradient alone: the correction is taken out again
  expect_near(bowls.server(control), pair(0.9, -0.8));        // moved by (1.8 − 2)/2 and (−1.6 + 2)/2
}

TEST(Scaffold, ClientControlIsTheMeanGradientAlsoUnderMomentum) {
  for (const double momentum : {0.0, 0.5, 0.9}) {
    Bowls bowls(compose("scaffold"), three_bowls);
    for (int round = 0; round < 3; ++round) {
      bowls.round({0, 1, 2}, momentum);
      for (size_t k = 0; k < 3; ++k) expect_near(bowls.client(k).at(control), bowls.mean_gradient(k), 2e-5);
    }
  }
}

TEST(Scaffold, ServerControlIsTheMeanOverAllClientsAlsoWithPartialParticipation) {
  Bowls bowls(compose("scaffold"), three_bowls);
  const std::vector<std::vector<int64_t>> cohorts{{0}, {1, 2}, {0, 2}, {1}, {0, 1, 2}};
  for (const auto& cohort : cohorts) {
    bowls.round(cohort, 0.9);
    auto sum = torch::zeros({2});
    for (size_t k = 0; k < 3; ++k)
      if (bowls.client(k).contains(control)) sum += bowls.client(k).at(control);
    expect_near(bowls.server(control), sum / 3);
  }
}

TEST(Scaffold, CorrectsByServerMinusClientControl) {
  const State global = initial_state(two_weights(), 1);
  TensorMap own{{control, torch::tensor({1.0F, 2.0F})}}, nothing;
  const TensorMap server{{control, torch::tensor({5.0F, -4.0F})}};
  const auto method = compose("scaffold");
  expect_near(problem_of(method, global, own, server).correction, pair(4, -6));
  expect_near(problem_of(method, global, nothing, server).correction, pair(5, -4));  // a client's first round
  expect_near(problem_of(method, global, own).correction, pair(-1, -2));
  EXPECT_EQ(problem_of(method, global, own, server).proximal, 0);
}

TEST(Scaffold, EndsWhereTheMeanGradientVanishesThoughClientsDriftApart) {
  // Two bowls, many local steps: the optimum of the mean is (a₁b₁ + a₂b₂)/(a₁ + a₂), and FedAvg misses it.
  const std::vector<Bowl> clients{{{1, 2}, {1, 0}, 1, 20}, {{3, 1}, {-1, 2}, 1, 20}};
  const auto optimum = pair(-0.5, 2.0 / 3);
  Bowls plain(compose("fedavg"), clients), controlled(compose("scaffold"), clients);
  for (int round = 0; round < 200; ++round) {
    plain.round({0, 1});
    controlled.round({0, 1});
  }
  expect_near(controlled.global().flat, optimum, 1e-3);
  EXPECT_GT((plain.global().flat - optimum).abs().max().item<double>(), 0.05);
}

TEST(Scaffold, ControlsOnlyWhatIsOptimisedAndSharedAndPaysForThat) {
  const auto model = mixed_model();
  const State global = initial_state(model, 1);
  State local = global.clone();
  local.flat.add_(1);
  TensorMap state;
  const auto method = compose("scaffold");
  const auto sent = sent_by(method, global, state, {local, 1, 0.1, 0});
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[1].weighting, Weighting::per_population);
  const auto kept = state.at(control);
  EXPECT_EQ(kept.ne(0).sum().item<int64_t>(), 2);  // bn1.weight and bn1.bias
  EXPECT_FLOAT_EQ(kept[0].item<float>(), -10);     // (w − w_k)/0.1
  EXPECT_EQ(sent[1].bytes, 2 * 4);
  EXPECT_EQ(method.bytes_down(*model), shared_bytes(*model) + 2 * 4);
}

TEST(Scaffold, ALearningRateOfZeroChangesNoControl) {
  const State global = initial_state(two_weights(), 1);
  TensorMap state{{control, torch::tensor({1.0F, 2.0F})}};
  sent_by(compose("scaffold"), global, state, {global, 5, 0.0, 0.9});
  EXPECT_TRUE(torch::equal(state.at(control), torch::tensor({1.0F, 2.0F})));
}

// ---- FedDyn

TEST(FedDyn, TwoRoundsByHand) {
  // α = 0.5; one step a round from θ = (2, −1), where the proximal term is still zero.
  // Client 0: a = (1, 2), b = 0, g = (2, −2), w = (1.8, −0.8); client 1: a = (3, 1), b = (1, 1), g = (3, −2), w = (1.7,
  // −0.8).
  Bowls bowls(compose("feddyn", {{"client.dyn.alpha", "0.5"}}), {{{1, 2}, {0, 0}, 9, 1}, {{3, 1}, {1, 1}, 1, 1}});
  bowls.round({0, 1});
  expect_near(bowls.client(0).at("feddyn.pull"), pair(0.1, -0.1));  // −α(w − θ)
  expect_near(bowls.client(1).at("feddyn.pull"), pair(0.15, -0.1));
  expect_near(bowls.server("feddyn.drift"), pair(-0.25, 0.2));      // Σ(w − θ)/2
  expect_near(bowls.global().flat, pair(1.75 - 0.25, -0.8 + 0.2));  // the plain mean, whatever the shares, and d
  // Client 1 alone from (1.5, −0.6): g = (1.5, −1.6), less its pull (0.15, −0.1): w = (1.365, −0.45).
  bowls.round({1});
  expect_near(bowls.last_local, pair(1.365, -0.45));
  expect_near(bowls.client(0).at("feddyn.pull"), pair(0.1, -0.1));  // did not take part
  expect_near(bowls.client(1).at("feddyn.pull"), pair(0.15 + 0.5 * 0.135, -0.1 - 0.5 * 0.15));
  const double d0 = -0.25 - 0.135 / 2, d1 = 0.2 + 0.15 / 2;  // over both clients, not over the cohort
  expect_near(bowls.server("feddyn.drift"), pair(d0, d1));
  expect_near(bowls.global().flat, pair(1.365 + d0, -0.45 + d1));
}

TEST(FedDyn, PullsTowardsTheModelReceivedWithAlpha) {
  // A second step feels the proximal term: w₁ = (1.8, −0.8), g = (1.8, −1.6), and 0.5 (w₁ − θ) = (−0.1, 0.1) on top.
  Bowls bowls(compose("feddyn", {{"client.dyn.alpha", "0.5"}}), {{{1, 2}, {0, 0}, 1, 2}});
  bowls.round({0});
  expect_near(bowls.last_local, pair(1.8 - 0.1 * 1.7, -0.8 - 0.1 * -1.5));
  const State global = initial_state(two_weights(), 1);
  TensorMap state;
  EXPECT_EQ(problem_of(compose("feddyn"), global, state).proximal, 0.01);
}

TEST(FedDyn, EndsWhereTheMeanGradientVanishes) {
  const std::vector<Bowl> clients{{{1, 2}, {1, 0}, 1, 20}, {{3, 1}, {-1, 2}, 1, 20}};
  Bowls bowls(compose("feddyn", {{"client.dyn.alpha", "1"}}), clients);
  for (int round = 0; round < 300; ++round) bowls.round({0, 1});
  expect_near(bowls.global().flat, pair(-0.5, 2.0 / 3), 1e-3);
  // Each client's pull is the gradient of its own loss there.
  for (size_t k = 0; k < 2; ++k)
    expect_near(bowls.client(k).at("feddyn.pull"), clients[k].gradient(bowls.global().flat), 5e-3);
}

TEST(FedDyn, AveragesStatisticsAndAuxiliaryHeadsPlainlyAndLeavesTheRestToTheBit) {
  TinyFederation f(compose("feddyn"), mixed_model());
  const State before = f.global.clone();
  State local = before.clone();
  for (int64_t index = 1; index <= 2; ++index) {  // in the second one there is drift to add
    local.flat.add_(static_cast<double>(4 * index - 3));
    const auto context = f.begin(index);
    Sums sums;
    for (const auto& sent : f.send(f.client(context), {local, 1, 0.1, 0}, sums))
      EXPECT_EQ(sent.bytes, sent.name == "state" ? shared_bytes(*f.model) : 0);
    f.global = f.method.aggregate(context, sums, f.server);
  }
  for (const auto* name : {"bn1.running_mean", "bn1.running_var", "probe.weight", "probe.bias"})
    EXPECT_TRUE(torch::equal(f.global.view(name), local.view(name))) << name;
  for (const auto* name : {"fc.weight", "fc.bias", "own.weight", "own.bias"})
    EXPECT_TRUE(torch::equal(f.global.view(name), before.view(name))) << name;
  EXPECT_FALSE(torch::equal(f.global.view("bn1.weight"), local.view("bn1.weight")));
  EXPECT_EQ(f.clients[0].state.at("feddyn.pull").ne(0).sum().item<int64_t>(), 2);
}

// ---- MOON

class Moon : public testing::Test {
 protected:
  /// The term that a client with a previous model is given.
  LogitLoss term(const Composition& method, const torch::Tensor& z, const torch::Tensor& z_global,
                 const torch::Tensor& z_own, const torch::Tensor& mask = {}) {
    TensorMap state{{"moon.previous", torch::zeros({2})}};
    const auto problem = problem_of(method, global_, state);
    LogitBatch batch;
    batch.labels = torch::zeros(z.sizes().slice(0, static_cast<size_t>(z.dim() - 1)), torch::kLong);
    batch.logits = torch::zeros({1}, z.options());
    batch.mask = mask;
    return (*problem.feature_loss)(z, {z_global, z_own}, batch);
  }
  State global_ = initial_state(two_weights(), 1);
};

TEST_F(Moon, TermByHand) {
  // z = (1, 0) lies on the previous model's features and across the global one's: cosines 1 and 0, over τ = 0.5.
  const auto [loss, gradient] = term(compose("moon", {{"client.moon.mu", "3"}}), torch::tensor({{1.0, 0.0}}),
                                     torch::tensor({{0.0, 5.0}}), torch::tensor({{2.0, 0.0}}));
  const double away = 1 / (1 + std::exp(-2.0));
  EXPECT_NEAR(loss.item<double>(), 3 * std::log(1 + std::exp(2.0)), 1e-6);
  expect_near(gradient, torch::tensor({{0.0, -3 * away / 0.5}}), 1e-6);  // descent turns z towards (0, 1)
}

TEST_F(Moon, TermAgreesWithAutograd) {
  const torch::Generator generator = at::detail::createCPUGenerator(7);
  const auto draw = [&](at::IntArrayRef shape) { return torch::randn(shape, generator, torch::kDouble); };
  const auto cosine = [](const torch::Tensor& a, const torch::Tensor& b) {
    return (a * b).sum(-1) / (a.norm(2, {-1}) * b.norm(2, {-1}));
  };
  for (const auto* text : {"0.5", "0.1"}) {
    const double tau = std::stod(text);
    const auto z = draw({6, 5}), theirs = draw({6, 5}), own = draw({6, 5});
    const auto leaf = z.clone().requires_grad_();
    const auto positive = (cosine(leaf, theirs) / tau).exp(), negative = (cosine(leaf, own) / tau).exp();
    const auto expected = -(positive / (positive + negative)).log().mean() * 5;
    const auto slope = torch::autograd::grad({expected}, {leaf}).front();
    const auto [loss, gradient] =
        term(compose("moon", {{"client.moon.mu", "5"}, {"client.moon.tau", text}}), z, theirs, own);
    expect_near(loss, expected.detach(), 1e-9);
    expect_near(gradient, slope, 1e-9);
  }
}

TEST_F(Moon, TermIsTheMeanOverTheSamplesOfEachSlot) {
  const torch::Generator generator = at::detail::createCPUGenerator(8);
  const auto z = torch::randn({2, 4, 3}, generator), theirs = torch::randn({2, 4, 3}, generator),
             own = torch::randn({2, 4, 3}, generator);
  const auto mask = torch::tensor({{1.0F, 1.0F, 1.0F, 1.0F}, {1.0F, 0.0F, 1.0F, 0.0F}});
  const auto method = compose("moon");
  const auto both = term(method, z, theirs, own, mask);
  ASSERT_EQ(both.loss.sizes(), at::IntArrayRef({2}));
  const auto kept = torch::tensor({0, 2}, torch::kLong);
  const auto first = term(method, z[0], theirs[0], own[0]);
  const auto second =
      term(method, z[1].index_select(0, kept), theirs[1].index_select(0, kept), own[1].index_select(0, kept));
  expect_near(both.loss, torch::stack({first.loss, second.loss}), 1e-6);
  expect_near(both.gradient[0], first.gradient, 1e-6);
  expect_near(both.gradient[1].index_select(0, kept), second.gradient, 1e-6);
  EXPECT_TRUE((both.gradient[1][1] == 0).all().item<bool>());  // no sample there
}

TEST_F(Moon, HasNoSlopeWherePreviousAndGlobalAgree) {
  const auto z = torch::tensor({{1.0F, 2.0F}, {-1.0F, 0.5F}}), other = torch::tensor({{3.0F, 1.0F}, {0.0F, 1.0F}});
  const auto [loss, gradient] = term(compose("moon"), z, other, other);
  EXPECT_TRUE((gradient == 0).all().item<bool>());
  EXPECT_NEAR(loss.item<double>(), std::log(2.0), 1e-6);
}

TEST_F(Moon, SurvivesFeaturesThatAreAllZero) {
  const auto none = torch::zeros({2, 3}), some = torch::ones({2, 3});
  for (const auto& [z, other] : {std::pair{none, some}, std::pair{some, none}, std::pair{none, none}}) {
    const auto [loss, gradient] = term(compose("moon"), z, other, some);
    EXPECT_TRUE(loss.isfinite().all().item<bool>() && gradient.isfinite().all().item<bool>());
  }
}

TEST_F(Moon, ComparesWithTheGlobalModelFirstAndTheClientsLastOneSecond) {
  const auto method = compose("moon");
  TensorMap state;
  const auto fresh = problem_of(method, global_, state);
  ASSERT_EQ(fresh.reference_models.size(), 2U);
  EXPECT_TRUE(torch::equal(fresh.reference_models[0], global_.flat));
  EXPECT_TRUE(torch::equal(fresh.reference_models[1], global_.flat));  // no previous model: no gradient
  State local = global_.clone();
  local.flat.add_(1);
  const auto sent = sent_by(method, global_, state, {local, 1, 0.1, 0});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].weighting, Weighting::server_weights);
  const auto kept = local.flat.clone();
  local.flat.add_(1);  // the engine trains the next client in the same place
  const auto later = problem_of(method, global_, state);
  EXPECT_TRUE(torch::equal(later.reference_models[0], global_.flat));
  EXPECT_TRUE(torch::equal(later.reference_models[1], kept));
}

TEST_F(Moon, WithoutWeightIsFedAvg) {
  const auto method = compose("moon", {{"client.moon.mu", "0"}});
  TensorMap state;
  const auto problem = problem_of(method, global_, state);
  EXPECT_EQ(problem.feature_loss, nullptr);  // the engine's plain path, bit for bit
  EXPECT_TRUE(problem.reference_models.empty());
  sent_by(method, global_, state, {global_, 1, 0.1, 0});
  EXPECT_TRUE(state.empty());
}

}  // namespace fedgrab::client_algorithm_test
