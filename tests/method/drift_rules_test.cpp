/// The rules against client drift, on problems small enough to work out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/method/tiny.h"

namespace fedgrab::drift_rules_test {

/// Two weights and nothing else: one feature, two classes, no bias.
std::shared_ptr<const Model> two_weights() {
  return make_model({"tiny", {1, 1, 1}, {Layer{LayerKind::flatten, "", -1}}, 1}, {Head{.bias = false}}, 2);
}

/// A norm of one channel beside a frozen and a private head: only bn1.weight and bn1.bias are moved and shared.
std::shared_ptr<const Model> mixed_model() {
  return tiny_model({Head{.role = Role::frozen}, Head{.name = "own", .role = Role::personal}}, 1, 2);
}

/// F(w) = Σ_i a_i/2 (w_i − b_i)², its gradient known everywhere.
struct Bowl {
  std::vector<double> a, b;
  double share = 0.5;
  int64_t steps = 3;

  torch::Tensor gradient(const torch::Tensor& w) const {
    return torch::tensor(a, torch::kDouble) * (w - torch::tensor(b, torch::kDouble));
  }
};

/// A federation of bowls that trains with the client rule as engines do: v ← m v + g + λ(w − w₀) + correction.
class Bowls {
 public:
  Bowls(std::unique_ptr<Method> method, std::vector<Bowl> clients)
      : method_(std::move(method)), clients_(std::move(clients)), memories_(clients_.size()), mean_(clients_.size()) {
    global.flat.copy_(torch::tensor({2.0F, -1.0F}));
  }

  void round(const std::vector<size_t>& cohort, double momentum = 0) {
    Sums sums;
    const auto start = global.flat.to(torch::kDouble);
    for (const size_t k : cohort) {
      const Bowl& bowl = clients_[k];
      const ClientView view{.client = static_cast<int64_t>(k),
                            .round = 1,
                            .share = bowl.share,
                            .seed = 1,
                            .global = global,
                            .counts = {},
                            .memory = memories_[k],
                            .cohort = static_cast<int64_t>(cohort.size()),
                            .population = static_cast<int64_t>(clients_.size()),
                            .server = server};
      const auto rule = method_->client_rule(view);
      const auto correction = rule.correction.defined() ? rule.correction.to(torch::kDouble) : torch::zeros({2});
      auto w = start.clone(), v = torch::zeros_like(w), path = torch::zeros_like(w);
      double reach = 0;  // ‖a‖₁: the factors with which each step's gradient enters the move
      for (int64_t step = 0; step < bowl.steps; ++step) {
        const auto g = bowl.gradient(w);
        double factor = 0;
        for (int64_t later = step; later < bowl.steps; ++later) factor += std::pow(momentum, later - step);
        path += factor * g;
        reach += factor;
        v = momentum * v + g + rule.proximal * (w - start) + correction;
        w = w - lr * v;
      }
      mean_[k] = path / reach;
      const State local{model, w.to(torch::kFloat)};
      for (const auto& sent : method_->contribute(view, {local, bowl.steps, lr, momentum}))
        sums.add(sent.name, sent.values, sent.weight);
      last_local = w;
    }
    method_->server_rule(global, sums, 1, server);
  }
  const TensorMap& memory(size_t k) const { return memories_[k]; }
  /// The average of the gradients that a client met in its last round, each by its part in the move.
  const torch::Tensor& mean_gradient(size_t k) const { return mean_[k]; }

  static constexpr double lr = 0.1;
  std::shared_ptr<const Model> model = two_weights();
  State global = initial_state(model, 1);
  TensorMap server;
  torch::Tensor last_local;

 private:
  std::unique_ptr<Method> method_;
  std::vector<Bowl> clients_;
  std::vector<TensorMap> memories_;
  std::vector<torch::Tensor> mean_;
};

void expect_near(const torch::Tensor& got, const torch::Tensor& expected, double tolerance = 1e-5) {
  ASSERT_TRUE(got.defined());
  EXPECT_LT((got.to(torch::kDouble) - expected.to(torch::kDouble)).abs().max().item<double>(), tolerance)
      << got << "\ninstead of\n"
      << expected;
}
torch::Tensor pair(double a, double b) { return torch::tensor({a, b}, torch::kDouble); }

// ---- FedIR

class FedIrWeights : public testing::Test {
 protected:
  torch::Tensor of(const std::vector<int64_t>& all, const std::vector<int64_t>& own) {
    const auto method = make_method("fedir");
    EXPECT_TRUE(method->wants_counts());
    method->learn_counts(all);
    TensorMap memory;
    return method->client_rule({0, 1, 1.0, 1, global_, own, memory}).class_weights;
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
  const auto method = make_method("fedir");
  method->learn_counts(std::vector<int64_t>{6, 4});
  TensorMap memory;
  const auto sent = method->contribute({0, 1, 0.3, 1, global_, {}, memory}, {global_, 1, 0.1, 0});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].name, "state");
  EXPECT_EQ(sent[0].weight, 0.3);
  EXPECT_TRUE(memory.empty());
}

// ---- SCAFFOLD

const std::vector<Bowl> three_bowls{{{1, 2}, {1, 0}, 0.5, 3}, {{3, 1}, {-1, 2}, 0.3, 5}, {{2, 4}, {0, 1}, 0.2, 1}};
const std::string control = "scaffold.control";

TEST(Scaffold, FirstRoundByHand) {
  // a = (1, 2), b = 0, from (2, −1), one step of 0.1: w = (1.8, −0.8), and c_k is the one gradient.
  Bowls bowls(make_method("scaffold"), {{{1, 2}, {0, 0}, 1, 1}, {{1, 1}, {0, 0}, 0, 1}});
  bowls.round({0});
  expect_near(bowls.global.flat, pair(1.8, -0.8));
  expect_near(bowls.memory(0).at(control), pair(2, -2));
  expect_near(bowls.server.at(control), pair(1, -1));  // 1/N of it, though all of the cohort took part
}

TEST(Scaffold, SecondRoundByHand) {
  // c = (1, −1) and c_k = (2, −2) from the round above; the gradient at (1.8, −0.8) is (1.8, −1.6)
  Bowls bowls(make_method("scaffold"), {{{1, 2}, {0, 0}, 1, 1}, {{1, 1}, {0, 0}, 0, 1}});
  bowls.round({0});
  bowls.round({0});
  expect_near(bowls.global.flat, pair(1.8 - 0.1 * (1.8 - 1), -0.8 - 0.1 * (-1.6 + 1)));
  expect_near(bowls.memory(0).at(control), pair(1.8, -1.6));  // the gradient alone: the correction is taken out again
  expect_near(bowls.server.at(control), pair(0.9, -0.8));     // moved by (1.8 − 2)/2 and (−1.6 + 2)/2
}

TEST(Scaffold, ClientControlIsTheMeanGradientAlsoUnderMomentum) {
  for (const double momentum : {0.0, 0.5, 0.9}) {
    Bowls bowls(make_method("scaffold"), three_bowls);
    for (int round = 0; round < 3; ++round) {
      bowls.round({0, 1, 2}, momentum);
      for (size_t k = 0; k < 3; ++k) expect_near(bowls.memory(k).at(control), bowls.mean_gradient(k), 2e-5);
    }
  }
}

TEST(Scaffold, ServerControlIsTheMeanOverAllClientsAlsoWithPartialParticipation) {
  Bowls bowls(make_method("scaffold"), three_bowls);
  const std::vector<std::vector<size_t>> cohorts{{0}, {1, 2}, {0, 2}, {1}, {0, 1, 2}};
  for (const auto& cohort : cohorts) {
    bowls.round(cohort, 0.9);
    auto sum = torch::zeros({2});
    for (size_t k = 0; k < 3; ++k)
      if (bowls.memory(k).contains(control)) sum += bowls.memory(k).at(control);
    expect_near(bowls.server.at(control), sum / 3);
  }
}

TEST(Scaffold, CorrectsByServerMinusClientControl) {
  const auto model = two_weights();
  const State global = initial_state(model, 1);
  TensorMap memory{{control, torch::tensor({1.0F, 2.0F})}};
  const TensorMap server{{control, torch::tensor({5.0F, -4.0F})}};
  const auto method = make_method("scaffold");
  const auto rule = [&](TensorMap& own, const TensorMap& shared) {
    return method->client_rule({.global = global, .memory = own, .server = shared});
  };
  TensorMap nothing;
  expect_near(rule(memory, server).correction, pair(4, -6));
  expect_near(rule(nothing, server).correction, pair(5, -4));  // a client that comes for the first time
  expect_near(rule(memory, no_tensors).correction, pair(-1, -2));
  EXPECT_EQ(rule(memory, server).proximal, 0);
}

TEST(Scaffold, EndsWhereTheMeanGradientVanishesThoughClientsDriftApart) {
  // Two bowls, many local steps: the optimum of the mean is (a₁b₁ + a₂b₂)/(a₁ + a₂), and FedAvg misses it.
  const std::vector<Bowl> clients{{{1, 2}, {1, 0}, 0.5, 20}, {{3, 1}, {-1, 2}, 0.5, 20}};
  const auto optimum = pair(-0.5, 2.0 / 3);
  Bowls plain(make_method("fedavg"), clients), controlled(make_method("scaffold"), clients);
  for (int round = 0; round < 200; ++round) {
    plain.round({0, 1});
    controlled.round({0, 1});
  }
  expect_near(controlled.global.flat, optimum, 1e-3);
  EXPECT_GT((plain.global.flat - optimum).abs().max().item<double>(), 0.05);
}

TEST(Scaffold, ControlsOnlyWhatIsMovedAndSharedAndPaysForThat) {
  const auto model = mixed_model();
  const State global = initial_state(model, 1);
  State local = global.clone();
  local.flat.add_(1);
  TensorMap memory;
  const auto method = make_method("scaffold");
  const auto sent = method->contribute({.share = 1, .global = global, .memory = memory}, {local, 1, 0.1, 0});
  ASSERT_EQ(sent.size(), 2U);
  const auto kept = memory.at(control);
  EXPECT_EQ(kept.ne(0).sum().item<int64_t>(), 2);  // bn1.weight and bn1.bias
  EXPECT_FLOAT_EQ(kept[0].item<float>(), -10);     // (w − w_k)/0.1
  EXPECT_EQ(sent[1].bytes, 2 * 4);
  EXPECT_EQ(method->bytes_down(*model), shared_bytes(*model) + 2 * 4);
}

TEST(Scaffold, ALearningRateOfZeroTellsNothing) {
  const State global = initial_state(two_weights(), 1);
  TensorMap memory{{control, torch::tensor({1.0F, 2.0F})}};
  make_method("scaffold")->contribute({.share = 1, .global = global, .memory = memory}, {global, 5, 0.0, 0.9});
  EXPECT_TRUE(torch::equal(memory.at(control), torch::tensor({1.0F, 2.0F})));
}

// ---- FedDyn

TEST(FedDyn, TwoRoundsByHand) {
  // α = 0.5; one step a round from θ = (2, −1), where the proximal term is still zero.
  // Client 0: a = (1, 2), b = 0, g = (2, −2), w = (1.8, −0.8); client 1: a = (3, 1), b = (1, 1), g = (3, −2), w = (1.7,
  // −0.8).
  Bowls bowls(make_method("feddyn", {{"alpha", 0.5}}), {{{1, 2}, {0, 0}, 0.9, 1}, {{3, 1}, {1, 1}, 0.1, 1}});
  bowls.round({0, 1});
  expect_near(bowls.memory(0).at("feddyn.pull"), pair(0.1, -0.1));  // −α(w − θ)
  expect_near(bowls.memory(1).at("feddyn.pull"), pair(0.15, -0.1));
  expect_near(bowls.server.at("feddyn.drift"), pair(-0.25, 0.2));  // Σ(w − θ)/2
  expect_near(bowls.global.flat, pair(1.75 - 0.25, -0.8 + 0.2));   // the plain mean, whatever the shares, and d
  // Client 1 alone from (1.5, −0.6): g = (1.5, −1.6), less its pull (0.15, −0.1): w = (1.365, −0.45).
  bowls.round({1});
  expect_near(bowls.last_local, pair(1.365, -0.45));
  expect_near(bowls.memory(0).at("feddyn.pull"), pair(0.1, -0.1));  // did not take part
  expect_near(bowls.memory(1).at("feddyn.pull"), pair(0.15 + 0.5 * 0.135, -0.1 - 0.5 * 0.15));
  const double d0 = -0.25 - 0.135 / 2, d1 = 0.2 + 0.15 / 2;  // over both clients, not over the cohort
  expect_near(bowls.server.at("feddyn.drift"), pair(d0, d1));
  expect_near(bowls.global.flat, pair(1.365 + d0, -0.45 + d1));
}

TEST(FedDyn, PullsTowardsTheModelReceivedWithAlpha) {
  // A second step feels the proximal term: w₁ = (1.8, −0.8), g = (1.8, −1.6), and 0.5 (w₁ − θ) = (−0.1, 0.1) on top.
  Bowls bowls(make_method("feddyn", {{"alpha", 0.5}}), {{{1, 2}, {0, 0}, 1, 2}});
  bowls.round({0});
  expect_near(bowls.last_local, pair(1.8 - 0.1 * 1.7, -0.8 - 0.1 * -1.5));
  State global = initial_state(two_weights(), 1);
  TensorMap memory;
  EXPECT_EQ(make_method("feddyn")->client_rule({.global = global, .memory = memory}).proximal, 0.01);
}

TEST(FedDyn, EndsWhereTheMeanGradientVanishes) {
  const std::vector<Bowl> clients{{{1, 2}, {1, 0}, 0.5, 20}, {{3, 1}, {-1, 2}, 0.5, 20}};
  Bowls bowls(make_method("feddyn", {{"alpha", 1.0}}), clients);
  for (int round = 0; round < 300; ++round) bowls.round({0, 1});
  expect_near(bowls.global.flat, pair(-0.5, 2.0 / 3), 1e-3);
  // Each client's pull is the gradient of its own loss there.
  for (size_t k = 0; k < 2; ++k)
    expect_near(bowls.memory(k).at("feddyn.pull"), clients[k].gradient(bowls.global.flat), 5e-3);
}

TEST(FedDyn, AveragesStatisticsPlainlyAndLeavesTheRestToTheBit) {
  const auto model = mixed_model();
  const State before = initial_state(model, 1);
  State global = before.clone();
  State local = before.clone();
  TensorMap memory, server;
  const auto method = make_method("feddyn");
  for (int round = 0; round < 2; ++round) {  // in the second one there is drift to add
    local.flat.add_(1 + 4 * round);
    Sums sums;
    for (const auto& sent : method->contribute({.share = 1, .global = global, .memory = memory}, {local, 1, 0.1, 0})) {
      sums.add(sent.name, sent.values, sent.weight);
      EXPECT_EQ(sent.bytes, sent.name == "state" ? shared_bytes(*model) : 0);
    }
    method->server_rule(global, sums, round + 1, server);
  }
  for (const auto* name : {"bn1.running_mean", "bn1.running_var"})
    EXPECT_TRUE(torch::equal(global.view(name), local.view(name))) << name;
  for (const auto* name : {"fc.weight", "fc.bias", "own.weight", "own.bias"})
    EXPECT_TRUE(torch::equal(global.view(name), before.view(name))) << name;
  EXPECT_EQ(memory.at("feddyn.pull").ne(0).sum().item<int64_t>(), 2);
}

// ---- MOON

class Moon : public testing::Test {
 protected:
  /// The term that a client with a previous model is given.
  LogitLoss term(const Method& method, const torch::Tensor& z, const torch::Tensor& z_global,
                 const torch::Tensor& z_own, const torch::Tensor& mask = {}) {
    TensorMap memory{{"moon.previous", torch::zeros({2})}};
    const auto rule = method.client_rule({.global = global_, .memory = memory});
    LogitBatch batch;
    batch.labels = torch::zeros(z.sizes().slice(0, static_cast<size_t>(z.dim() - 1)), torch::kLong);
    batch.logits = torch::zeros({1}, z.options());
    batch.mask = mask;
    return (*rule.feature_term)(z, {z_global, z_own}, batch);
  }
  State global_ = initial_state(two_weights(), 1);
};

TEST_F(Moon, TermByHand) {
  // z = (1, 0) lies on the previous model's features and across the global one's: cosines 1 and 0, over τ = 0.5.
  const auto [loss, gradient] = term(*make_method("moon", {{"mu", 3.0}}), torch::tensor({{1.0, 0.0}}),
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
  for (const double tau : {0.5, 0.1}) {
    const auto z = draw({6, 5}), theirs = draw({6, 5}), own = draw({6, 5});
    const auto leaf = z.clone().requires_grad_();
    const auto positive = (cosine(leaf, theirs) / tau).exp(), negative = (cosine(leaf, own) / tau).exp();
    const auto expected = -(positive / (positive + negative)).log().mean() * 5;
    const auto slope = torch::autograd::grad({expected}, {leaf}).front();
    const auto [loss, gradient] = term(*make_method("moon", {{"mu", 5.0}, {"tau", tau}}), z, theirs, own);
    expect_near(loss, expected.detach(), 1e-9);
    expect_near(gradient, slope, 1e-9);
  }
}

TEST_F(Moon, TermIsTheMeanOverTheSamplesOfEachSlot) {
  const torch::Generator generator = at::detail::createCPUGenerator(8);
  const auto z = torch::randn({2, 4, 3}, generator), theirs = torch::randn({2, 4, 3}, generator),
             own = torch::randn({2, 4, 3}, generator);
  const auto mask = torch::tensor({{1.0F, 1.0F, 1.0F, 1.0F}, {1.0F, 0.0F, 1.0F, 0.0F}});
  const auto method = make_method("moon");
  const auto both = term(*method, z, theirs, own, mask);
  ASSERT_EQ(both.loss.sizes(), at::IntArrayRef({2}));
  const auto kept = torch::tensor({0, 2}, torch::kLong);
  const auto first = term(*method, z[0], theirs[0], own[0]);
  const auto second =
      term(*method, z[1].index_select(0, kept), theirs[1].index_select(0, kept), own[1].index_select(0, kept));
  expect_near(both.loss, torch::stack({first.loss, second.loss}), 1e-6);
  expect_near(both.gradient[0], first.gradient, 1e-6);
  expect_near(both.gradient[1].index_select(0, kept), second.gradient, 1e-6);
  EXPECT_TRUE((both.gradient[1][1] == 0).all().item<bool>());  // no sample there
}

TEST_F(Moon, HasNoSlopeWherePreviousAndGlobalAgree) {
  const auto z = torch::tensor({{1.0F, 2.0F}, {-1.0F, 0.5F}}), other = torch::tensor({{3.0F, 1.0F}, {0.0F, 1.0F}});
  const auto [loss, gradient] = term(*make_method("moon"), z, other, other);
  EXPECT_TRUE((gradient == 0).all().item<bool>());
  EXPECT_NEAR(loss.item<double>(), std::log(2.0), 1e-6);
}

TEST_F(Moon, SurvivesFeaturesThatAreAllZero) {
  const auto none = torch::zeros({2, 3}), some = torch::ones({2, 3});
  for (const auto& [z, other] : {std::pair{none, some}, std::pair{some, none}, std::pair{none, none}}) {
    const auto [loss, gradient] = term(*make_method("moon"), z, other, some);
    EXPECT_TRUE(loss.isfinite().all().item<bool>() && gradient.isfinite().all().item<bool>());
  }
}

TEST_F(Moon, ComparesWithTheGlobalModelFirstAndTheClientsLastOneSecond) {
  const auto method = make_method("moon");
  TensorMap memory;
  const auto fresh = method->client_rule({.global = global_, .memory = memory});
  ASSERT_EQ(fresh.others.size(), 2U);
  EXPECT_TRUE(torch::equal(fresh.others[0], global_.flat));
  EXPECT_TRUE(torch::equal(fresh.others[1], global_.flat));  // no previous model: no slope
  State local = global_.clone();
  local.flat.add_(1);
  const auto sent = method->contribute({.share = 0.25, .global = global_, .memory = memory}, {local, 1, 0.1, 0});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].weight, 0.25);
  const auto kept = local.flat.clone();
  local.flat.add_(1);  // the engine trains the next client in the same place
  const auto later = method->client_rule({.global = global_, .memory = memory});
  EXPECT_TRUE(torch::equal(later.others[0], global_.flat));
  EXPECT_TRUE(torch::equal(later.others[1], kept));
}

TEST_F(Moon, WithoutWeightIsFedAvg) {
  const auto method = make_method("moon", {{"mu", 0.0}});
  TensorMap memory;
  const auto rule = method->client_rule({.global = global_, .memory = memory});
  EXPECT_EQ(rule.feature_term, nullptr);  // the engine's plain path, bit for bit
  EXPECT_TRUE(rule.others.empty());
  method->contribute({.share = 1, .global = global_, .memory = memory}, {global_, 1, 0.1, 0});
  EXPECT_TRUE(memory.empty());
}

}  // namespace fedgrab::drift_rules_test
