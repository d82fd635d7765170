/// Aggregators, server optimisers and the moving average of the global model, on a model of a few numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/method/tiny.h"

namespace fedgrab::server_test {

struct Trained {
  std::vector<float> values;
  int64_t samples;
  int64_t steps = 10;
};

const std::vector<float> start{1, 0, 2, -2, 0.5, -0.5, 0, 1};

/// BatchNorm weight and bias, classifier weight and bias (two each), two statistics.
class Server : public testing::Test {
 protected:
  void begin(const std::string& preset, const Values& settings = {}, const std::vector<float>& values = start) {
    federation_ = std::make_unique<TinyFederation>(compose(preset, settings), 1, 2);
    federation_->global.flat.copy_(torch::tensor(values));
  }
  void round(const std::vector<Trained>& trained, double momentum = 0, int64_t index = 1) {
    auto& f = *federation_;
    f.clients.resize(trained.size());
    for (size_t k = 0; k < trained.size(); ++k) f.clients[k].samples = trained[k].samples;
    const auto context = f.begin(index);
    Sums sums;
    for (size_t k = 0; k < trained.size(); ++k) {
      const State local{f.model, torch::tensor(trained[k].values)};
      f.send(f.client(context, k), {local, trained[k].steps, 0.1, momentum}, sums);
    }
    f.global = f.method.aggregate(context, sums, f.server);
  }
  /// One client whose model has this value everywhere.
  void round_to(double value, int64_t index = 1) {
    round({{std::vector<float>(8, static_cast<float>(value)), 1}}, 0, index);
  }

  float value(int64_t i) const { return federation_->global.flat[i].item<float>(); }
  State deployed() const { return federation_->method.deploy(federation_->global, federation_->server); }
  void expect(const std::vector<float>& values) const {
    EXPECT_TRUE(torch::allclose(federation_->global.flat, torch::tensor(values), 1e-6, 1e-6))
        << federation_->global.flat;
  }

  std::unique_ptr<TinyFederation> federation_;
  const std::vector<Trained> two_{{{2, 1, 3, -1, 0.5, 0.5, 4, 3}, 3}, {{0, 1, 1, -3, 1.5, -0.5, 0, 1}, 1}};
  const std::vector<float> average_{1.5, 1, 2.5, -1.5, 0.75, 0.25, 3, 2.5};
};

// ---- FedNova

TEST_F(Server, FedNovaIsFedAvgWhenAllTakeTheSameSteps) {
  for (const double momentum : {0.0, 0.9}) {
    begin("fednova");
    round(two_, momentum);
    expect(average_);
  }
}

TEST_F(Server, FedNovaDividesByTheStepsOfEachClient) {
  auto clients = two_;
  clients[0].steps = 30;  // τ_eff = 0.75 · 30 + 0.25 · 10 = 25
  begin("fednova");
  round(clients);
  // BatchNorm weight: 1 + 25 (0.75 · 1/30 + 0.25 · −1/10); the statistics are averaged plainly
  expect({1.0F, 1.25F, 2.0F, -2.0F, 1.125F, 0.125F, 3, 2.5F});
}

TEST_F(Server, FedNovaCountsMomentumIn) {
  auto clients = two_;
  clients[0].steps = 2;  // m = 0.5: ‖a‖ = (2 − 0.5 · 0.75/0.5)/0.5 = 2.5
  clients[1].steps = 1;  // ‖a‖ = (1 − 0.5 · 0.5/0.5)/0.5 = 1
  begin("fednova");
  round(clients, 0.5);
  const double effective = 0.75 * 2.5 + 0.25 * 1;
  EXPECT_NEAR(value(0), 1 + effective * (0.75 * 1 / 2.5 - 0.25 * 1), 1e-6);
}

TEST_F(Server, FedNovaAveragesAuxiliaryHeadsPlainly) {
  TinyFederation f(compose("fednova", {{"prior.source", "dpa"}}), 1, 2, {{.samples = 3}, {.samples = 1}});
  const State before = f.global.clone();
  const auto context = f.begin();
  Sums sums;
  for (size_t k = 0; k < 2; ++k) {
    State local = f.global.clone();
    local.flat.add_(static_cast<double>(k) + 1);
    f.send(f.client(context, k), {local, k == 0 ? 30 : 10, 0.1, 0}, sums);
  }
  const State after = f.method.aggregate(context, sums, f.server);
  EXPECT_TRUE(torch::allclose(after.view("probe.weight"), before.view("probe.weight") + 1.25));
  EXPECT_TRUE(torch::allclose(after.view("fc.weight"), before.view("fc.weight") + 25 * (0.75 / 30 + 0.25 * 2 / 10)));
}

// ---- server optimisers

TEST_F(Server, FedAvgMIsFedAvgWithoutMomentumAndGathersSpeedWithIt) {
  begin("fedavgm", {{"server.beta1", "0"}});
  round(two_);
  expect(average_);
  begin("fedavgm", {{"server.beta1", "0.5"}, {"server.lr", "2"}}, std::vector<float>(8, 0));
  round_to(1);  // v = 1, w = 2; statistics 1
  EXPECT_FLOAT_EQ(value(0), 2);
  EXPECT_FLOAT_EQ(value(7), 1);
  round_to(1);  // Δ = −1, v = 0.5 − 1, w = 2 + 2 (−0.5)
  EXPECT_FLOAT_EQ(value(0), 1);
}

TEST_F(Server, MomentumMovesNoStatistics) {
  begin("fedavgm", {{"server.beta1", "0.9"}}, std::vector<float>(8, 0));
  for (const double target : {1.0, 3.0, -2.0}) {
    round_to(target);
    for (const int64_t statistic : {6, 7}) EXPECT_EQ(value(statistic), static_cast<float>(target));
  }
  EXPECT_GT(std::abs(value(0) + 2), 0.5);  // the weights overshoot
  ASSERT_EQ(federation_->server.size(), 1U);
  EXPECT_EQ(federation_->server.begin()->second.numel(), 6);
}

TEST_F(Server, MomentumHasALearningRateOfOneByDefault) {
  begin("fedavgm", {}, std::vector<float>(8, 0));
  round_to(3);
  EXPECT_EQ(value(0), 3);
}

TEST_F(Server, AdaptiveOptimisersTakeTheirPapersStep) {
  struct Case {
    const char* name;
    double (*square)(double v, double delta);
  };
  const Case cases[] = {{"fedadagrad", [](double v, double d) { return v + d * d; }},
                        {"fedadam", [](double v, double d) { return 0.99 * v + 0.01 * d * d; }},
                        {"fedyogi", [](double v, double d) {
                           return v - 0.01 * d * d * (v > d * d ? 1 : v < d * d ? -1 : 0);
                         }}};
  for (const double lr : {0.1, 0.0})  // 0: 0.01
    for (const auto& [name, square] : cases) {
      begin(name, {{"server.lr", lr > 0 ? "0.1" : "0"}}, std::vector<float>(8, 0));
      double w = 0, m = 0, v = 1e-6;  // v starts at τ²
      for (const double target : {1.0, -2.0}) {
        round_to(target);
        const double delta = target - w;
        m = 0.9 * m + 0.1 * delta;
        v = square(v, delta);
        w += (lr > 0 ? lr : 0.01) * m / (std::sqrt(v) + 1e-3);
        EXPECT_NEAR(value(0), w, 1e-5) << name;
        EXPECT_FLOAT_EQ(value(6), static_cast<float>(target)) << name << ": running mean";
      }
      EXPECT_FALSE(federation_->server.empty());
    }
}

// ---- weights of the clients

TEST(ClientWeights, AreBySamplesOrAllTheSame) {
  const std::vector<int64_t> sizes{10, 20, 30, 40};
  const std::vector<TinyClient> clients{{.samples = 10}, {.samples = 20}, {.samples = 30}, {.samples = 40}};
  EXPECT_EQ(TinyFederation(compose("fedavg"), 1, 2, clients).begin().weights,
            (std::vector<double>{0.1, 0.2, 0.3, 0.4}));
  const TinyFederation uniform(compose("fedavg", {{"server.weights", "uniform"}}), 1, 2, clients);
  EXPECT_EQ(uniform.begin().weights, (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(uniform.begin(1, {3, 1}).weights, (std::vector<double>{0.5, 0.5}));
}

// ---- moving average of the global model

TEST_F(Server, MovingAverageIsDeployedAndTrainingGoesOnFromTheModelItself) {
  begin("fedavg", {{"server.ema", "0.9"}}, std::vector<float>(8, 0));
  EXPECT_TRUE(torch::equal(deployed().flat, torch::zeros({8})));  // before round 1 there is none
  round_to(1, 1);                                                 // the first average is the model
  EXPECT_TRUE(torch::equal(deployed().flat, torch::ones({8})));
  round_to(12, 2);                                                         // decay 2/11: (2 · 1 + 9 · 12)/11
  EXPECT_TRUE(torch::allclose(deployed().flat, torch::full({8}, 10.0F)));  // BatchNorm statistics alike
  EXPECT_TRUE(torch::equal(federation_->global.flat, torch::full({8}, 12.0F)));
  round_to(30, 1000);  // by now the decay is 0.9
  EXPECT_TRUE(torch::allclose(deployed().flat, torch::full({8}, 12.0F)));
}

TEST_F(Server, MovingAverageFollowsTheOptimiser) {
  begin("fedavgm", {{"server.ema", "0.9"}, {"server.lr", "2"}, {"server.beta1", "0"}}, std::vector<float>(8, 0));
  round_to(1, 1);
  EXPECT_EQ(deployed().flat[0].item<float>(), 2);  // where the optimiser went
  EXPECT_EQ(deployed().flat[7].item<float>(), 1);  // a statistic, which it does not move
}

TEST_F(Server, WithoutAMovingAverageTheModelItselfIsDeployed) {
  begin("fedavg");
  for (int64_t index = 1; index <= 3; ++index) round(two_, 0, index);
  EXPECT_TRUE(federation_->server.empty());
  EXPECT_TRUE(torch::equal(deployed().flat, federation_->global.flat));
}

TEST(MovingAverage, LeavesFrozenPersonalAndAuxiliaryParametersAlone) {
  const Head aux{.name = "aux", .detached = true}, own{.name = "own", .role = Role::personal, .detached = true};
  TinyFederation f(compose("fedavg", {{"server.ema", "0.5"}}), tiny_model({{.role = Role::frozen}, aux, own}, 1, 2));
  for (int64_t index = 1; index <= 3; ++index)
    f.round(index, [](const auto&, const auto&, State& local) { add_to_trained(local, 1); });
  const State deployed = f.method.deploy(f.global, f.server);
  for (const auto& p : f.model->parameters) {
    const bool averaged = p.name == "bn1.weight" || p.name == "bn1.bias";
    EXPECT_EQ(torch::equal(deployed.view(p), f.global.view(p)), !averaged) << p.name;
  }
}

}  // namespace fedgrab::server_test
