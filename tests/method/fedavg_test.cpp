#include <gtest/gtest.h>

#include <cmath>

#include "tests/method/tiny.h"

namespace fedgrab::fedavg_test {

class FedAvg : public testing::Test {
 protected:
  /// One round in which client k has so many samples and ends at locals[k].
  void round(const std::vector<State>& locals, const std::vector<int64_t>& samples) {
    federation_.clients.resize(locals.size());
    for (size_t k = 0; k < locals.size(); ++k) federation_.clients[k].samples = samples[k];
    const auto context = federation_.begin();
    Sums sums;
    for (size_t k = 0; k < locals.size(); ++k) {
      federation_.send(federation_.client(context, k), {locals[k], 1, 0.1, 0.0}, sums);
      EXPECT_TRUE(federation_.clients[k].state.empty());
    }
    federation_.global = federation_.method.aggregate(context, sums, federation_.server);
    EXPECT_TRUE(federation_.server.empty());
  }
  State filled(const std::vector<float>& values) const { return {federation_.model, torch::tensor(values)}; }

  TinyFederation federation_{compose("fedavg"), 1, 2};
  State& global_ = federation_.global;
};

std::shared_ptr<const Model> partly_shared() {
  return tiny_model({Head{.role = Role::frozen}, Head{.name = "own", .role = Role::personal}}, 1, 2);
}

TEST_F(FedAvg, AveragesByNumberOfSamplesWithTheRunningStatistics) {
  // bn1.weight, bn1.bias, fc.weight (2), fc.bias (2), running mean and variance
  ASSERT_EQ(federation_.model->size, 8);
  global_.flat.fill_(9);
  round({filled({1, 0, 4, -4, 0.5, 2, 8, 1}), filled({2, 4, 0, 4, 0.5, -2, 0, 3}), filled({4, 0, 0, 0, 0.5, 0, 4, 2})},
        {2, 1, 1});
  EXPECT_TRUE(torch::equal(global_.flat, torch::tensor({2.0F, 1.0F, 2.0F, -1.0F, 0.5F, 0.5F, 5.0F, 1.75F})));
}

TEST_F(FedAvg, OfOneClientIsItsModelToTheBit) {
  const State local = filled({0.1F, 0.2F, 0.3F, -0.7F, 1e-3F, 3.3F, 1.1F, 0.9F});
  round({local}, {1});
  EXPECT_TRUE(torch::equal(global_.flat, local.flat));
}

TEST_F(FedAvg, LeavesFrozenAndPersonalParametersToTheBit) {
  federation_.model = partly_shared();
  const State before = initial_state(federation_.model, 1);
  global_ = before.clone();
  State local = before.clone();
  local.flat.add_(1);  // a client that changes everything
  round({local}, {1});
  for (const auto* name : {"fc.weight", "fc.bias", "own.weight", "own.bias"})
    EXPECT_TRUE(torch::equal(global_.view(name), before.view(name))) << name;
  for (const auto* name : {"bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"})
    EXPECT_TRUE(torch::equal(global_.view(name), local.view(name))) << name;
}

TEST_F(FedAvg, CountsTheBytesOfWhatIsShared) {
  round({global_.clone(), global_.clone()}, {1, 1});
  EXPECT_EQ(federation_.bytes_up, 2 * 8 * 4);
  EXPECT_EQ(federation_.method.bytes_down(*federation_.model), 8 * 4);
  EXPECT_EQ(federation_.method.bytes_down(*partly_shared()), 4 * 4);  // BatchNorm alone
}

TEST_F(FedAvg, TrainsItsOnlyHeadBySoftmax) {
  const auto problem = federation_.configure();
  ASSERT_EQ(problem.heads.size(), 1U);
  const LogitBatch batch{.logits = torch::zeros({1, 2}), .labels = torch::tensor({int64_t{1}})};
  TensorMap state;
  const auto result = (*problem.heads.front().objective)(batch, state);
  EXPECT_FLOAT_EQ(result.loss.item<float>(), std::log(2.0F));
  EXPECT_TRUE(torch::allclose(result.gradient, torch::tensor({{0.5F, -0.5F}})));
  EXPECT_EQ(problem.proximal, 0);
  EXPECT_FALSE(problem.correction.defined());
  EXPECT_FALSE(problem.class_weights.defined() || problem.class_sizes.defined());
  EXPECT_EQ(problem.feature_loss, nullptr);
}

TEST_F(FedAvg, DeploysTheModelAsItIsAndStartsEveryClientFromIt) {
  EXPECT_TRUE(torch::equal(federation_.method.deploy(global_, no_tensors).flat, global_.flat));
  for (const int64_t round : {1, 2}) EXPECT_FALSE(federation_.method.own_start(round));
  EXPECT_TRUE(federation_.method.weights_only());
  EXPECT_FALSE(federation_.begin().prior.defined());
  EXPECT_FALSE(federation_.method.recorded_prior(federation_.begin()).defined());
}

TEST(FedAvgLoss, IsTheOneTheUserAskedFor) {
  TinyFederation f(compose("fedavg", {{"objective.name", "sigmoid"}}), 1, 2);
  const LogitBatch batch{.logits = torch::zeros({1, 2}), .labels = torch::tensor({int64_t{1}})};
  TensorMap state;
  EXPECT_FLOAT_EQ((*f.configure().heads.front().objective)(batch, state).loss.item<float>(), 2 * std::log(2.0F));
}

TEST(FedAvgLoss, KeepsTheStateOfItsBalancersOverRounds) {
  TinyFederation f(compose("fedavg", {{"objective.name", "sgb"}}), 1, 2);
  const LogitBatch batch{.logits = torch::tensor({{0.5F, -0.5F}}), .labels = torch::tensor({0}, torch::kLong)};
  const auto step = [&](int64_t round) {
    return (*f.configure(round).heads[0].objective)(batch, f.clients[0].state).gradient;
  };
  const auto first = step(1);
  EXPECT_TRUE(torch::equal(first, sigmoid_loss(batch).gradient));
  EXPECT_FALSE(torch::equal(step(2), first));
}

TEST(FedAvgLoss, AccumulatesGradientsWhereAsked) {
  const LogitBatch batch{.logits = torch::tensor({{0.5F, -0.5F}}), .labels = torch::tensor({0}, torch::kLong)};
  for (const char* collect : {"false", "true"}) {
    TinyFederation f(compose("fedavg", {{"objective.collect", collect}}), 1, 2);
    (*f.configure().heads[0].objective)(batch, f.clients[0].state);
    const auto context = f.begin();
    EXPECT_EQ(f.method.diagnose(f.client(context)).contains("delta"), std::string(collect) == "true");
  }
}

}  // namespace fedgrab::fedavg_test
