/// The algebra of the federated rules, on a model of a few numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/method/tiny.h"

namespace fedgrab::federated_rules_test {

struct Trained {
  std::vector<float> values;
  double share;
  int64_t steps = 10;
};

class Rules : public testing::Test {
 protected:
  void round(const Method& method, const std::vector<Trained>& clients, double momentum = 0) {
    Sums sums;
    TensorMap memory;
    for (size_t k = 0; k < clients.size(); ++k) {
      const ClientView view{static_cast<int64_t>(k), 1, clients[k].share, 1, global_, {}, memory};
      const State local{model_, torch::tensor(clients[k].values)};
      for (const auto& sent : method.contribute(view, {local, clients[k].steps, 0.1, momentum}))
        sums.add(sent.name, sent.values, sent.weight);
    }
    method.server_rule(global_, sums, 1, server_);
  }
  void expect(const std::vector<float>& values, double tolerance = 1e-6) const {
    EXPECT_TRUE(torch::allclose(global_.flat, torch::tensor(values), tolerance, tolerance)) << global_.flat;
  }

  /// bn weight and bias, fc weight and bias (two each), two statistics.
  std::shared_ptr<const Model> model_ = tiny_model({Head{}}, 1, 2);
  State global_{model_, torch::tensor({1.0F, 0.0F, 2.0F, -2.0F, 0.5F, -0.5F, 0.0F, 1.0F})};
  TensorMap server_;
  const std::vector<Trained> two_{{{2, 1, 3, -1, 0.5, 0.5, 4, 3}, 0.75}, {{0, 1, 1, -3, 1.5, -0.5, 0, 1}, 0.25}};
  const std::vector<float> average_{1.5, 1, 2.5, -1.5, 0.75, 0.25, 3, 2.5};
};

TEST_F(Rules, FedNovaIsFedAvgWhenAllTakeTheSameSteps) {
  for (const double momentum : {0.0, 0.9}) {
    global_ = State{model_, torch::tensor({1.0F, 0.0F, 2.0F, -2.0F, 0.5F, -0.5F, 0.0F, 1.0F})};
    round(*make_method("fednova"), two_, momentum);
    expect(average_);
  }
}

TEST_F(Rules, FedNovaDividesByTheStepsOfEachClient) {
  auto clients = two_;
  clients[0].steps = 30;  // τ_eff = 0.75 · 30 + 0.25 · 10 = 25
  round(*make_method("fednova"), clients);
  // bn weight: 1 + 25 (0.75 · 1/30 + 0.25 · −1/10); the statistics are averaged plainly
  expect({1.0F, 1.25F, 2.0F, -2.0F, 1.125F, 0.125F, 3, 2.5F});
}

TEST_F(Rules, FedNovaCountsMomentumIn) {
  auto clients = two_;
  clients[0].steps = 2;  // m = 0.5: ‖a‖ = (2 − 0.5 · 0.75/0.5)/0.5 = 2.5
  clients[1].steps = 1;  // ‖a‖ = (1 − 0.5 · 0.5/0.5)/0.5 = 1
  round(*make_method("fednova"), clients, 0.5);
  const double effective = 0.75 * 2.5 + 0.25 * 1;
  EXPECT_NEAR(global_.flat[0].item<double>(), 1 + effective * (0.75 * 1 / 2.5 - 0.25 * 1), 1e-6);
}

TEST_F(Rules, FedProxPullsAndIsFedAvgWithoutPull) {
  TensorMap memory;
  const ClientView view{0, 1, 1.0, 1, global_, {}, memory};
  EXPECT_EQ(make_method("fedprox")->client_rule(view).proximal, 0.01);
  EXPECT_EQ(make_method("fedprox", {{"mu", 0.0}})->client_rule(view).proximal,
            0);  // the engine's plain path, bit for bit
  round(*make_method("fedprox"), two_);
  expect(average_);
}

TEST_F(Rules, FedAvgMIsFedAvgWithoutMomentumAndGathersSpeedWithIt) {
  round(*make_method("fedavgm", {{"beta", 0.0}}), two_);
  expect(average_);
  server_.clear();
  global_ = State{model_, torch::zeros({8})};
  const auto method = make_method("fedavgm", {{"beta", 0.5}, {"lr", 2.0}});
  const std::vector<Trained> ahead{{std::vector<float>(8, 1), 1}};
  round(*method, ahead);  // v = 1, w = 2; statistics 1
  EXPECT_FLOAT_EQ(global_.flat[0].item<float>(), 2);
  EXPECT_FLOAT_EQ(global_.flat[7].item<float>(), 1);
  round(*method, ahead);  // Δ = −1, v = 0.5 − 1, w = 2 + 2 (−0.5)
  EXPECT_FLOAT_EQ(global_.flat[0].item<float>(), 1);
}

TEST_F(Rules, AdaptiveServersTakeTheirPapersStep) {
  struct Case {
    const char* name;
    double (*square)(double v, double delta);
  };
  const Case cases[] = {{"fedadagrad", [](double v, double d) { return v + d * d; }},
                        {"fedadam", [](double v, double d) { return 0.99 * v + 0.01 * d * d; }},
                        {"fedyogi", [](double v, double d) {
                           return v - 0.01 * d * d * (v > d * d ? 1 : v < d * d ? -1 : 0);
                         }}};
  for (const auto& [name, square] : cases) {
    server_.clear();
    global_ = State{model_, torch::zeros({8})};
    const auto method = make_method(name, {{"lr", 0.1}});
    double w = 0, m = 0, v = 1e-6;  // v starts at τ²
    for (const double target : {1.0, -2.0}) {
      round(*method, {{std::vector<float>(8, static_cast<float>(target)), 1}});
      const double delta = target - w;
      m = 0.9 * m + 0.1 * delta;
      v = square(v, delta);
      w += 0.1 * m / (std::sqrt(v) + 1e-3);
      EXPECT_NEAR(global_.flat[0].item<double>(), w, 1e-5) << name;
      EXPECT_FLOAT_EQ(global_.flat[6].item<float>(), static_cast<float>(target)) << name << ": running mean";
    }
    EXPECT_FALSE(server_.empty());
  }
}

}  // namespace fedgrab::federated_rules_test
