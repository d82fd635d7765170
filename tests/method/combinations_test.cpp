/// Parts go together freely unless they contradict each other.
#include <gtest/gtest.h>

#include <algorithm>

#include "fedgrab/core/error.h"
#include "fedgrab/objective/balancer.h"
#include "tests/method/tiny.h"

namespace fedgrab::combinations_test {

void add_one(const ClientContext&, const LocalProblem&, State& local) { add_to_trained(local, 1); }

std::vector<Range> ranges_of(const Model& model, const std::string& head) {
  return model.ranges([&](const ParameterInfo& p) { return p.name.starts_with(head + "."); });
}

// ---- auxiliary heads are no business of optimisers and corrections

class AuxiliaryHead : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, AuxiliaryHead, testing::Values("momentum", "adagrad", "adam", "yogi"));

TEST_P(AuxiliaryHead, OfFedGrabIsMovedByNoServerOptimiser) {
  TinyFederation plain(compose("fedgrab"), 4, 3), moved(compose("fedgrab", {{"server.optimizer", GetParam()}}), 4, 3);
  for (const int64_t round : {1, 2, 3}) {
    plain.round(round, add_one);
    moved.round(round, add_one);
    for (const auto* name : {"probe.weight", "probe.bias", "bn1.running_mean", "bn1.running_var"})
      EXPECT_TRUE(torch::equal(plain.global.view(name), moved.global.view(name))) << name << " in round " << round;
  }
  EXPECT_FALSE(torch::equal(plain.global.view("bn1.weight"), moved.global.view("bn1.weight")));
  int64_t kept = 0;
  for (const auto& [name, tensor] : moved.server) kept = std::max(kept, tensor.numel());
  EXPECT_EQ(kept, 2 * 4);  // of bn1.weight and bn1.bias
}

TEST(FedGrab, GoesWithScaffoldWhoseControlsLeaveTheAuxiliaryHeadAlone) {
  TinyFederation f(compose("fedgrab", {{"client.algorithm", "scaffold"}}), 4, 3, {{}, {}});
  const LogitBatch batch{.logits = torch::zeros({1, 3}), .labels = torch::tensor({int64_t{1}})};
  const auto train = [&](const ClientContext& client, const LocalProblem& problem, State& local) {
    (*problem.heads[0].objective)(batch, client.state);
    add_to_trained(local, 1);
  };
  for (const int64_t round : {1, 2}) f.round(round, train);
  for (const auto& client : f.clients) {
    EXPECT_TRUE(client.state.contains("sgb.positive"));  // balancers and controls side by side
    EXPECT_TRUE(client.state.contains("scaffold.control"));
  }
  const auto context = f.begin(3);
  const auto problem = f.method.configure(f.client(context));
  EXPECT_NE(dynamic_cast<const BalancedObjective*>(problem.heads[0].objective), nullptr);
  EXPECT_TRUE(problem.heads[0].prior.defined());
  for (const auto* head : {"probe", "fc"})
    for (const auto& [offset, size] : ranges_of(*f.model, head)) {
      EXPECT_TRUE((problem.correction.narrow(0, offset, size) == 0).all().item<bool>()) << head;
      EXPECT_TRUE((f.server.at("scaffold.control").narrow(0, offset, size) == 0).all().item<bool>()) << head;
    }
  EXPECT_TRUE((f.server.at("scaffold.control").narrow(0, 0, 4) != 0).all().item<bool>());  // bn1.weight
}

TEST(Scaffold, GoesWithBalancersOfATrainedHead) {
  TinyFederation f(compose("scaffold", {{"objective.name", "sgb"}}), 4, 3);
  f.round(1, add_one);
  const auto problem = f.configure(2);
  EXPECT_NE(dynamic_cast<const BalancedObjective*>(problem.heads[0].objective), nullptr);
  EXPECT_FALSE(problem.heads[0].prior.defined());  // gate: auto, and there is no prior
  EXPECT_TRUE(problem.correction.defined());
}

TEST(Scaffold, GoesWithAServerOptimiser) {
  TinyFederation f(compose("scaffold", {{"server.optimizer", "momentum"}, {"server.lr", "2"}}), 4, 3);
  const State before = f.global.clone();
  f.round(1, add_one);
  EXPECT_TRUE(torch::allclose(f.global.view("fc.weight"), before.view("fc.weight") + 2));
  // The control is that of the clients' own way: (w − w_k)/0.1.
  EXPECT_TRUE(torch::allclose(f.server.at("scaffold.control").narrow(0, 0, 4), torch::full({4}, -10.0F), 1e-4));
}

TEST(FedProx, GoesWithBalancedSoftmaxAndAMovingAverage) {
  TinyFederation f(
      compose("fedprox", {{"objective.name", "balanced-softmax"}, {"server.ema", "0.9"}, {"client.prox.mu", "0.5"}}), 4,
      3, {{.counts = {6, 3, 1}}});
  const State start = f.global.clone();
  const auto problem = f.configure();
  EXPECT_EQ(problem.proximal, 0.5);
  const LogitBatch batch{.logits = torch::zeros({1, 3}),
                         .labels = torch::tensor({0}, torch::kLong),
                         .counts = torch::tensor({6.0F, 3.0F, 1.0F})};
  TensorMap state;
  EXPECT_TRUE(
      torch::allclose((*problem.heads[0].objective)(batch, state).gradient, torch::tensor({{-0.4F, 0.3F, 0.1F}})));
  for (const int64_t round : {1, 2}) f.round(round, add_one);
  EXPECT_TRUE(torch::allclose(f.global.view("fc.weight"), start.view("fc.weight") + 2));
  const State deployed = f.method.deploy(f.global, f.server);  // (2 · 1 + 9 · 2)/11
  EXPECT_TRUE(torch::allclose(deployed.view("fc.weight"), start.view("fc.weight") + 20.0 / 11));
}

TEST(FedNova, GoesWithMomentumAtTheServer) {
  TinyFederation f(compose("fednova", {{"server.optimizer", "momentum"}, {"server.beta1", "0.5"}}), 4, 3);
  const State start = f.global.clone();
  f.round(1, add_one);  // v = 1
  f.round(2, add_one);  // v = 0.5 + 1
  EXPECT_TRUE(torch::allclose(f.global.view("fc.weight"), start.view("fc.weight") + 2.5));
}

TEST(Heads, OfSeveralPartsKeepTheirOrder) {
  auto f = compose("fedloge", {{"prior.source", "dpa"}, {"objective.class_sizes", "prior"}});
  const auto model = f.model(tiny_architecture(4), 3);
  std::vector<std::string> names;
  for (const auto& head : model->heads) names.push_back(head.name);
  EXPECT_EQ(names, (std::vector<std::string>{"fc", "probe", "aux", "local"}));
}

TEST(BytesDown, AreTheModelAndWhatPartsBroadcast) {
  TinyFederation f(compose("scaffold", {{"prior.source", "bias-probe"}}), 4, 3);
  EXPECT_EQ(f.method.bytes_down(*f.model), shared_bytes(*f.model) + optimised_bytes(*f.model) + 3 * 4);
  EXPECT_FALSE(f.method.weights_only());
}

// ---- all of them

/// Any loss with any method and any prior; where the heads do not go together, a usage error says so.
TEST(AnyLoss, GoesWithAnyMethodAndPriorOrIsRefused) {
  const auto has = [](const Preset& preset, const char* key) {
    return std::any_of(preset.values.begin(), preset.values.end(),
                       [&](const auto& value) { return value.first == key; });
  };
  for (const auto& preset : presets()) {
    if (has(preset, "objective.name") && preset.name != "fedgrab") continue;
    for (const auto& objective : objectives())
      for (const auto& prior : class_priors()) {
        SCOPED_TRACE(preset.name + " " + objective.name + " " + prior.name);
        const Values settings{{"objective.name", objective.name},
                              {"prior.source", prior.name},
                              {"objective.class_sizes", prior.name == "none" ? "local" : "prior"}};
        const bool cosine = objective.name == "ldam" || objective.name == "gcl";
        const bool clash = (cosine && has(preset, "posthoc.kind") && preset.name != "dpa-shift") ||
                           (preset.name == "dpa-shift" && prior.name == "none");
        if (clash) {
          EXPECT_THROW(compose(preset.name, settings), Error);
          continue;
        }
        TinyFederation f(compose(preset.name, settings), 2, 4, {{.counts = {6, 3, 0, 1}}});
        if (f.method.needs().global_counts) f.method.learn_counts(std::vector<int64_t>{50, 20, 8, 2});
        const auto problem = f.configure();
        EXPECT_EQ(problem.heads.size(), f.model->heads.size());
        const bool estimated = prior.name != "none" && prior.name != "bias-probe";  // which has none before round 1
        EXPECT_EQ(problem.class_sizes.defined(), estimated);
      }
  }
}

TEST(AnyClientAlgorithm, GoesWithAnyServerOrIsRefused) {
  for (const auto& algorithm : client_algorithms())
    for (const auto& aggregator : aggregators())
      for (const auto& optimizer : server_optimizers())
        for (const char* ema : {"0", "0.9"}) {
          SCOPED_TRACE(algorithm.name + " " + aggregator.name + " " + optimizer.name + " " + ema);
          const Values settings{{"client.algorithm", algorithm.name},
                                {"server.aggregator", aggregator.name},
                                {"server.optimizer", optimizer.name},
                                {"server.ema", ema}};
          if (algorithm.name == "dyn" && (aggregator.name != "average" || optimizer.name != "none")) {
            EXPECT_THROW(compose("fedavg", settings), Error);
            continue;
          }
          TinyFederation f(compose("fedavg", settings), 2, 3, {{.counts = {2, 1, 0}}, {.counts = {0, 1, 2}}});
          for (const int64_t round : {1, 2}) f.round(round, add_one);
          EXPECT_TRUE(f.global.flat.isfinite().all().item<bool>());
          EXPECT_TRUE(f.method.deploy(f.global, f.server).flat.isfinite().all().item<bool>());
        }
}

}  // namespace fedgrab::combinations_test
