#include <gtest/gtest.h>

#include "fedgrab/method/method.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::fedavg_test {

Config defaults() {
  Schema schema;
  declare_methods(schema);
  return Config(schema);
}

/// A norm of one channel and heads on its one feature.
std::shared_ptr<const Model> tiny_model(std::vector<Head> heads) {
  const Layer norm{.kind = LayerKind::batch_norm, .name = "bn1", .in = 1, .out = 1};
  return make_model({"tiny", {1, 1, 1}, {norm, Layer{LayerKind::flatten, "", 0}}, 1}, std::move(heads), 2);
}

class FedAvg : public testing::Test {
 protected:
  /// One round in which client k ends at locals[k] and holds shares[k] of the samples.
  void round(State& global, const std::vector<State>& locals, const std::vector<double>& shares) {
    Sums sums;
    TensorMap client_memory, server_memory;
    for (size_t k = 0; k < locals.size(); ++k) {
      const ClientView view{static_cast<int64_t>(k), 1, shares[k], 1, global, {}, client_memory};
      for (const auto& sent : method_->contribute(view, {locals[k], 1, 0.1, 0.0})) {
        sums.add(sent.name, sent.values, sent.weight);
        sent_bytes_ += sent.bytes;
      }
    }
    method_->server_rule(global, sums, 1, server_memory);
    EXPECT_TRUE(client_memory.empty() && server_memory.empty());
  }

  static State filled(const std::shared_ptr<const Model>& model, const std::vector<float>& values) {
    return {model, torch::tensor(values)};
  }

  std::unique_ptr<Method> method_ = find_method("fedavg").make(defaults());
  int64_t sent_bytes_ = 0;
};

TEST_F(FedAvg, AveragesByShareOfSamplesWithTheRunningStatistics) {
  const auto model = tiny_model({Head{}});
  // bn1.weight, bn1.bias, fc.weight (2), fc.bias (2), running mean and variance
  ASSERT_EQ(model->size, 8);
  State global = filled(model, {9, 9, 9, 9, 9, 9, 9, 9});
  round(global,
        {filled(model, {1, 0, 4, -4, 0.5, 2, 8, 1}), filled(model, {2, 4, 0, 4, 0.5, -2, 0, 3}),
         filled(model, {4, 0, 0, 0, 0.5, 0, 4, 2})},
        {0.5, 0.25, 0.25});
  EXPECT_TRUE(torch::equal(global.flat, torch::tensor({2.0F, 1.0F, 2.0F, -1.0F, 0.5F, 0.5F, 5.0F, 1.75F})));
}

TEST(FedAvgMemory, OfABalancerIsKeptOverRoundsUnlessReset) {
  const LogitBatch batch{.logits = torch::tensor({{0.5F, -0.5F}}), .labels = torch::tensor({0}, torch::kLong)};
  const State global = initial_state(tiny_model({Head{}}), 1);
  for (const bool reset : {false, true}) {
    Config config = defaults();
    config.set_text("objective.name", "sgb");
    config.set("objective.sgb.reset", reset);
    const auto method = find_method("fedavg").make(config);
    TensorMap memory;
    const auto step = [&](int64_t round) {
      const auto rule = method->client_rule({0, round, 1, 1, global, {}, memory});
      return (*rule.heads[0].objective)(batch, memory).gradient;
    };
    const auto first = step(1);
    EXPECT_EQ(torch::equal(step(2), first), reset);
  }
}

TEST_F(FedAvg, OneClientHandsItsModelOverToTheBit) {
  const auto model = tiny_model({Head{}});
  State global = filled(model, std::vector<float>(8, 0));
  const State local = filled(model, {0.1F, 0.2F, 0.3F, -0.7F, 1e-3F, 3.3F, 1.1F, 0.9F});
  round(global, {local}, {1.0});
  EXPECT_TRUE(torch::equal(global.flat, local.flat));
}

TEST_F(FedAvg, LeavesFrozenAndPersonalParametersToTheBit) {
  const auto model = tiny_model({Head{.role = Role::frozen}, Head{.name = "own", .role = Role::personal}});
  const State before = initial_state(model, 1);
  State global = before.clone();
  State local = before.clone();
  local.flat.add_(1);  // a client that tampers with everything
  round(global, {local}, {1.0});
  for (const auto* name : {"fc.weight", "fc.bias", "own.weight", "own.bias"})
    EXPECT_TRUE(torch::equal(global.view(name), before.view(name))) << name;
  for (const auto* name : {"bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"})
    EXPECT_TRUE(torch::equal(global.view(name), local.view(name))) << name;
}

TEST_F(FedAvg, CountsTheBytesOfWhatIsShared) {
  const auto model = tiny_model({Head{}});
  State global = initial_state(model, 1);
  round(global, {global.clone(), global.clone()}, {0.5, 0.5});
  EXPECT_EQ(sent_bytes_, 2 * 8 * 4);
  EXPECT_EQ(method_->bytes_down(*model), 8 * 4);
  const auto partly = tiny_model({Head{.role = Role::frozen}, Head{.name = "own", .role = Role::personal}});
  EXPECT_EQ(method_->bytes_down(*partly), 4 * 4);  // the norm alone
}

TEST_F(FedAvg, TrainsItsOnlyHeadWithTheSoftmax) {
  const State global = initial_state(tiny_model(method_->heads()), 1);
  TensorMap memory;
  const ClientRule rule = method_->client_rule({0, 1, 1.0, 1, global, {}, memory});
  ASSERT_EQ(rule.heads.size(), 1U);
  const LogitBatch batch{.logits = torch::zeros({1, 2}), .labels = torch::tensor({int64_t{1}})};
  const auto result = (*rule.heads.front().objective)(batch, memory);
  EXPECT_FLOAT_EQ(result.loss.item<float>(), std::log(2.0F));
  EXPECT_TRUE(torch::allclose(result.gradient, torch::tensor({{0.5F, -0.5F}})));
  EXPECT_EQ(rule.proximal, 0);
  EXPECT_FALSE(rule.correction.defined());
  EXPECT_FALSE(method_->centralised());
}

TEST(Methods, TakeTheObjectiveTheUserAskedFor) {
  Config config = defaults();
  config.set_text("objective.name", "sigmoid");
  const auto method = find_method("fedavg").make(config);
  const State global = initial_state(tiny_model(method->heads()), 1);
  TensorMap memory;
  const ClientRule rule = method->client_rule({0, 1, 1.0, 1, global, {}, memory});
  const LogitBatch batch{.logits = torch::zeros({1, 2}), .labels = torch::tensor({int64_t{1}})};
  EXPECT_FLOAT_EQ((*rule.heads.front().objective)(batch, memory).loss.item<float>(), 2 * std::log(2.0F));
}

TEST(Methods, UnknownNamesAreAnsweredWithTheNearestKnownOne) {
  expect_error(Fault::usage, [] { find_method("fedavgg"); }, {"method.name", "\"fedavgg\"", "did you mean fedavg?"});
  Config config = defaults();
  config.set_text("objective.name", "nonsense");
  expect_error(Fault::usage, [&] { chosen_loss(config); }, {"objective.name", "nonsense"});
}

TEST(Methods, HaveNamesOfTheirOwnAndASummary) {
  std::set<std::string> names;
  for (const auto& entry : methods()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_FALSE(entry.make(defaults())->heads().empty()) << entry.name;
  }
}

}  // namespace fedgrab::fedavg_test
