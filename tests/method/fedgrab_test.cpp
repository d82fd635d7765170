/// Fed-GraB: heads, prior, gate, and what the published code does otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fedgrab/objective/balancer.h"
#include "tests/data/scratch_folder.h"
#include "tests/method/tiny.h"

namespace fedgrab::fedgrab_test {

/// Two features, three classes; the first client has more of class 0 than of the others.
TinyFederation federation(Values settings = {}, const std::string& preset = "fedgrab") {
  return {compose(preset, settings), 2, 3, {{.samples = 3, .counts = {6, 3, 0}}, {.samples = 1, .counts = {0, 1, 4}}}};
}

void expect_values(const torch::Tensor& tensor, const std::vector<double>& expected) {
  ASSERT_TRUE(tensor.defined());
  ASSERT_EQ(tensor.numel(), static_cast<int64_t>(expected.size()));
  for (size_t j = 0; j < expected.size(); ++j)
    EXPECT_NEAR(tensor[static_cast<int64_t>(j)].item<double>(), expected[j], 1e-6) << "class " << j;
}

/// What the gate of this client's classifier reads.
torch::Tensor gate_of(TinyFederation& f, size_t place = 0) {
  const auto context = f.begin();
  return f.method.configure(f.client(context, place)).heads[0].prior;
}
torch::Tensor recorded(const TinyFederation& f) { return f.method.recorded_prior(f.begin()); }

/// Gradient in the second step: only the first step of a balancer is unweighted.
torch::Tensor second_gradient(const HeadLoss& head, TensorMap& state, const LogitBatch& batch) {
  (*head.objective)(batch, state);
  return (*head.objective)(batch, state).gradient;
}

LogitBatch some_batch() {
  return {.logits = torch::tensor({{0.5F, -0.5F, 0.25F}, {1.0F, 0.0F, -1.0F}}),
          .labels = torch::tensor({0, 1}, torch::kLong)};
}

// ---- heads

struct HeadCase {
  Values settings;
  Role role;
  bool auxiliary;
};

const Values fixed{{"prior.source", "fixed"}}, client_mean{{"head.init", "client-mean"}},
    trained{{"head.frozen", "false"}, {"head.init", "random"}};
Values both(Values one, const Values& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

class FedGrabHeads : public testing::TestWithParam<HeadCase> {};
INSTANTIATE_TEST_SUITE_P(
    Settings, FedGrabHeads,
    testing::Values(HeadCase{{}, Role::frozen, true}, HeadCase{fixed, Role::frozen, false},
                    HeadCase{{{"prior.source", "none"}, {"objective.sgb.gate", "local"}}, Role::frozen, false},
                    HeadCase{{{"prior.source", "none"}, {"objective.sgb.gate", "off"}}, Role::frozen, false},
                    HeadCase{{{"prior.source", "counts"}}, Role::frozen, false},
                    HeadCase{{{"prior.source", "bias-probe"}}, Role::frozen, false},
                    HeadCase{both(client_mean, fixed), Role::frozen, false}, HeadCase{client_mean, Role::frozen, true},
                    HeadCase{both(trained, {{"prior.dpa.head", "classifier"}}), Role::shared, false},
                    HeadCase{trained, Role::shared, true}));

TEST_P(FedGrabHeads, AreThoseOfTheSettings) {
  const auto& [settings, role, auxiliary] = GetParam();
  auto f = federation(settings);
  const auto& heads = f.model->heads;
  ASSERT_EQ(heads.size(), auxiliary ? 2U : 1U);
  EXPECT_EQ(heads[0].name, "fc");
  EXPECT_EQ(heads[0].role, role);
  EXPECT_FALSE(heads[0].detached);
  if (auxiliary) {
    EXPECT_EQ(heads[1].name, "probe");
    EXPECT_EQ(heads[1].role, Role::shared);
    EXPECT_TRUE(heads[1].detached);  // it reads features and sends no gradient back
  }
  // one loss per head, or the engine would leave one untrained
  EXPECT_EQ(f.configure().heads.size(), heads.size());
}

TEST(FedGrabHead, TrainsTheBackboneWithBalancersAndTheAuxiliaryHeadBySoftmax) {
  auto f = federation();
  const auto batch = some_batch();
  for (const int64_t round : {1, 2}) {
    const auto problem = f.configure(round);
    ASSERT_EQ(problem.heads.size(), 2U);
    TensorMap balanced, plain;
    const auto gradient = second_gradient(problem.heads[0], balanced, batch);
    EXPECT_FALSE(torch::allclose(gradient, softmax_loss(batch).gradient));
    EXPECT_FALSE(torch::allclose(gradient, sigmoid_loss(batch).gradient));
    EXPECT_TRUE(balanced.contains("sgb.positive"));
    EXPECT_FALSE(problem.heads[1].prior.defined());
    EXPECT_TRUE(torch::equal(second_gradient(problem.heads[1], plain, batch), softmax_loss(batch).gradient));
    EXPECT_TRUE(plain.empty());
  }
}

// ---- where the prior comes from

/// Weight norms 5, 1 and 2.
void set_norms(const TinyFederation& f, const char* parameter) {
  f.global.view(parameter).copy_(torch::tensor({{3.0F, 4.0F}, {0.0F, 1.0F}, {2.0F, 0.0F}}));
}

TEST(FedGrabPrior, OfDpaIsReadFromTheModelReceived) {
  for (const char* head : {"auxiliary", "classifier"}) {
    auto f = federation({{"prior.dpa.head", head}, {"prior.scale", "share"}});
    set_norms(f, std::string(head) == "auxiliary" ? "probe.weight" : "fc.weight");
    expect_values(gate_of(f), {0.625, 0.125, 0.25});
    expect_values(gate_of(f, 1), {0.625, 0.125, 0.25});
    expect_values(recorded(f), {0.625, 0.125, 0.25});
  }
}

TEST(FedGrabPrior, IsScaledAsAsked) {
  const auto of = [](const Values& settings) {
    auto f = federation(settings);
    set_norms(f, "probe.weight");
    return recorded(f);
  };
  expect_values(of({{"prior.scale", "share"}}), {0.625, 0.125, 0.25});
  expect_values(of({{"prior.scale", "span"}}), {1, 0.1, 0.325});
  expect_values(of({{"prior.scale", "span"}, {"prior.span_min", "0.2"}}), {1, 0.2, 0.4});
  expect_values(of({{"prior.scale", "rank"}, {"prior.span_min", "0.04"}}), {1, 0.04, 0.2});
  expect_values(of({}), {1, 0.1, std::sqrt(0.1)});  // rank
}

TEST(FedGrabPrior, CanBeFixedAndIsThenUsedAsItIs) {
  expect_values(recorded(federation(fixed)), {1, std::pow(0.1, 0.5), 0.1});
  auto given = federation(both(fixed, {{"prior.fixed", "0.2,0.9,0"}}));
  expect_values(recorded(given), {0.2, 0.9, 0});
  expect_values(gate_of(given), {0.2, 0.9, 0});
}

TEST(FedGrabPrior, OfLocalCountsIsEachClientsOwn) {
  auto f = federation({{"prior.source", "none"}, {"objective.sgb.gate", "local"}, {"prior.scale", "span"}});
  expect_values(gate_of(f), {1, 0.55, 0.1});
  expect_values(gate_of(f, 1), {0.1, 0.325, 1});
  EXPECT_FALSE(recorded(f).defined());  // nobody else knows it
}

TEST(FedGrabPrior, OfNoneExemptsNoClass) {
  for (const Values& settings : {Values{{"prior.source", "none"}}, {{"objective.sgb.gate", "off"}}}) {
    auto f = federation(settings);
    EXPECT_FALSE(gate_of(f).defined());
    EXPECT_FALSE(recorded(f).defined());
  }
}

// ---- the heads over the rounds

/// Client k adds k + 1 to all that it may train; their weights are 0.75 and 0.25.
void add_one_more_each(const ClientContext& client, const LocalProblem&, State& local) {
  add_to_trained(local, static_cast<double>(client.client) + 1);
}

TEST(FedGrabHead, FrozenStaysAtItsStart) {
  auto f = federation();
  const State start = f.global.clone();
  for (const int64_t round : {1, 2}) f.round(round, add_one_more_each);
  for (const auto* name : {"fc.weight", "fc.bias"})
    EXPECT_TRUE(torch::equal(f.global.view(name), start.view(name))) << name;
}

TEST(FedGrabAuxiliaryHead, IsAveragedAndDecays) {
  for (const auto& [text, decay] : {std::pair("1", 1.0), std::pair("0.5", 0.5), std::pair("0", 0.0)}) {
    auto f = federation({{"prior.dpa.decay", text}});
    const State start = f.global.clone();
    for (const int64_t round : {1, 2}) f.round(round, add_one_more_each);
    // 0.75 · 1 + 0.25 · 2 more in each round; the bias, of which no norm is read, does not decay
    const auto expected = ((start.view("probe.weight") + 1.25) * decay + 1.25) * decay;
    EXPECT_TRUE(torch::allclose(f.global.view("probe.weight"), expected)) << text;
    EXPECT_TRUE(torch::allclose(f.global.view("probe.bias"), start.view("probe.bias") + 2.5)) << text;
  }
}

TEST(FedGrabAuxiliaryHead, DecaysByHalfInThePreset) {
  auto f = federation();
  const State start = f.global.clone();
  f.round(1, [](const auto&, const auto&, State&) {});
  EXPECT_TRUE(torch::allclose(f.global.view("probe.weight"), start.view("probe.weight") * 0.5));
}

TEST(FedGrabHead, TrainedIsAveraged) {
  auto f = federation(both(trained, {{"prior.dpa.head", "classifier"}}));
  const State start = f.global.clone();
  f.round(1, add_one_more_each);
  EXPECT_TRUE(torch::allclose(f.global.view("fc.weight"), start.view("fc.weight") + 1.25));
}

TEST(FedGrabHead, ClientMeanIsTheMeanOfTheClientsOwnRandomHeads) {
  auto f = federation(both(client_mean, fixed));
  const State start = f.global.clone();
  EXPECT_TRUE(f.method.own_start(1));
  EXPECT_FALSE(f.method.own_start(2));
  std::vector<State> own;  // each starts from a head of its own
  f.round(1, [&](const ClientContext& client, const LocalProblem& problem, State& local) {
    EXPECT_TRUE(torch::equal(local.view("bn1.weight"), start.view("bn1.weight")));
    own.push_back(local.clone());
    add_one_more_each(client, problem, local);
  });
  EXPECT_FALSE(torch::equal(own[0].view("fc.weight"), own[1].view("fc.weight")));
  EXPECT_FALSE(torch::equal(own[0].view("fc.weight"), start.view("fc.weight")));
  for (const auto* name : {"fc.weight", "fc.bias"})
    EXPECT_TRUE(torch::allclose(f.global.view(name), 0.75 * own[0].view(name) + 0.25 * own[1].view(name), 1e-5, 1e-7))
        << name;
  EXPECT_TRUE(torch::allclose(f.global.view("bn1.weight"), start.view("bn1.weight") + 1.25));

  // from then on it is frozen for everyone
  const State after = f.global.clone();
  f.round(2, [&](const ClientContext& client, const LocalProblem& problem, State& local) {
    EXPECT_TRUE(torch::equal(local.flat, after.flat));
    add_one_more_each(client, problem, local);
  });
  EXPECT_TRUE(torch::equal(f.global.view("fc.weight"), after.view("fc.weight")));
}

TEST(FedGrabHead, ClientMeanPaysForTheHeadsInTheFirstRound) {
  TinyFederation f(compose("fedgrab", both(client_mean, fixed)), 2, 3);
  const auto bytes = [&](int64_t round) {
    f.bytes_up = 0;
    f.round(round, add_one_more_each);
    return f.bytes_up;
  };
  EXPECT_EQ(bytes(1), shared_bytes(*f.model) + (3 * 2 + 3) * 4);
  EXPECT_EQ(bytes(2), shared_bytes(*f.model));
}

// ---- the slips of the published code

TEST(FedGrabPublished, PriorIsTheFixedOneThroughItsGate) {
  auto f = federation({}, "fedgrab-published");
  const std::vector<double> expected{1, std::sqrt(0.1), std::sqrt(0.1) * 0.1 + (1 - std::sqrt(0.1)) * std::sqrt(0.1)};
  expect_values(recorded(f), expected);
  expect_values(gate_of(f), expected);
  EXPECT_EQ(f.model->heads.size(), 1U);
}

TEST(FedGrabPublished, AveragesEachClientWithTheWeightOfAnother) {
  const auto weights = [](const std::string& preset, int64_t round) {
    const TinyFederation f(compose(preset), 2, 3, {{.samples = 10}, {.samples = 20}, {.samples = 30}, {.samples = 40}});
    return f.begin(round).weights;
  };
  const std::vector<double> own{0.1, 0.2, 0.3, 0.4};
  EXPECT_EQ(weights("fedgrab", 1), own);
  std::set<std::vector<double>> orders;
  for (int64_t round = 1; round <= 8; ++round) {
    auto given = weights("fedgrab-published", round);
    EXPECT_EQ(weights("fedgrab-published", round), given);
    orders.insert(given);
    std::sort(given.begin(), given.end());
    EXPECT_EQ(given, own);
  }
  EXPECT_GT(orders.size(), 3U);
}

// ---- client state and diagnostics

TEST(FedGrabState, IsKeptOverRounds) {
  auto f = federation({{"prior.source", "none"}});
  const auto batch = some_batch();
  const auto step = [&](int64_t round) {
    return (*f.configure(round).heads[0].objective)(batch, f.clients[0].state).gradient;
  };
  const auto first = step(1);
  EXPECT_TRUE(torch::equal(first, sigmoid_loss(batch).gradient));
  EXPECT_FALSE(torch::equal(step(2), first));
}

TEST(FedGrabState, IsDiagnosedAsDeltaAndBeta) {
  auto f = federation();
  const auto context = f.begin();
  const auto client = f.client(context);
  EXPECT_TRUE(f.method.diagnose(client).empty());  // nothing accumulated yet

  const auto row = [](std::vector<double> values) { return torch::tensor(values, torch::kDouble); };
  client.state = {{"sgb.positive", row({3, 1, 0})},
                  {"sgb.negative", row({1, 1, 0.5})},
                  {"sgb.error", row({0, 0, 0})},
                  {"sgb.error_sum", row({0, 0, 0})},
                  {"sgb.output", row({-2, 0, 100})}};
  auto found = f.method.diagnose(client);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found["delta"], (std::vector<double>{2, 0, -0.5}));
  const auto weight = [](double u) { return 10 / (1 + 9 * std::exp(-0.5 * u)); };
  for (size_t j = 0; j < 3; ++j) {
    const double u = std::vector<double>{-2, 0, 100}[j];
    EXPECT_NEAR(found["beta_pos"][j], weight(u), 1e-9) << j;
    EXPECT_NEAR(found["beta_neg"][j], weight(-u), 1e-9) << j;
  }
}

// ---- where the head starts

constexpr uint64_t seed = 11;

struct Started {
  std::shared_ptr<const Model> model;
  State plain, global;  // before and after initialise()
  std::string said;     // on the error stream
};

Started started(const Values& settings, const std::string& network = "cnn", int64_t classes = 10) {
  auto method = compose("fedgrab", settings);
  const auto model = method.model(make_architecture(network, {3, 32, 32}), classes);
  Started result{model, initial_state(model, seed), initial_state(model, seed), ""};
  testing::internal::CaptureStderr();
  method.initialise(result.global, seed);
  result.said = testing::internal::GetCapturedStderr();
  return result;
}

TEST(FedGrabStart, IsASimplexWithTheChanceOfAClass) {
  const auto start = started({});
  const auto& weight = start.global.view("fc.weight");
  EXPECT_NEAR(weight[0].dot(weight[1]).item<double>(), -4.0 / 9, 1e-6);
  // Features of zero: every sigmoid says 1/M.
  const auto chance = torch::sigmoid(start.global.view("fc.bias") * start.model->heads[0].scale);
  EXPECT_LT((chance - 0.1).abs().max().item<double>(), 1e-6);
}

TEST(FedGrabStart, HasSmallerWeightNormsWithMoreFeatures) {
  const auto norm = [](const Started& start) {
    return start.model->heads[0].scale * start.global.view("fc.weight")[0].norm().item<double>();
  };
  EXPECT_NEAR(norm(started({}, "cnn")), 2, 1e-5);  // 64 features
  EXPECT_NEAR(norm(started({}, "resnet18")), 16 / std::sqrt(512), 1e-5);
  EXPECT_NEAR(norm(started({{"head.norm", "3"}}, "resnet18")), 3, 1e-5);
}

TEST(FedGrabStart, OfOtherHeadsIsThatOfAnyLayer) {
  for (const Values& settings : {client_mean, trained}) {
    const auto start = started(settings);
    EXPECT_EQ(start.model->heads[0].scale, 1);
    EXPECT_TRUE(torch::equal(start.global.flat, start.plain.flat));
  }
}

TEST(FedGrabStart, OfACosineHeadIsTheSimplexWithoutABias) {
  const auto start = started({{"head.kind", "cosine"}});
  EXPECT_FALSE(start.model->heads[0].bias);
  EXPECT_EQ(start.model->heads[0].scale, 10);
  const auto& weight = start.global.view("fc.weight");
  EXPECT_NEAR(weight[0].dot(weight[1]).item<double>(), -1.0 / 9, 1e-6);
}

TEST(FedGrabStart, WarnsOfMoreClassesThanFeatures) {
  EXPECT_EQ(started({}, "cnn", 64).said, "");
  EXPECT_NE(started({}, "cnn", 65).said.find("65 classes and 64 features"), std::string::npos);
  EXPECT_EQ(started(trained, "cnn", 65).said, "");
}

TEST(FedGrabStart, WarnsOfBalancersTooStrongForTheNetwork) {
  EXPECT_NE(started({}, "pfl-cnn").said.find("pfl-cnn has no BatchNorm"), std::string::npos);
  EXPECT_EQ(started({{"objective.sgb.gamma", "3"}, {"objective.sgb.delta", "2"}}, "pfl-cnn").said, "");
  EXPECT_EQ(started({{"objective.name", "softmax"}}, "pfl-cnn").said, "");
}

}  // namespace fedgrab::fedgrab_test
