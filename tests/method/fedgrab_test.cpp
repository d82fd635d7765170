#include "method/fedgrab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fedgrab/prior/prior.h"
#include "tests/data/scratch_folder.h"
#include "tests/method/tiny.h"

namespace fedgrab::fedgrab_test {

constexpr uint64_t seed = 11;

std::shared_ptr<const Model> model_of(const Method& method) { return tiny_model(method.heads(), 2, 3); }

/// A client with more of class 0 than of the others.
struct Client {
  int64_t index = 0;
  double share = 1;
  std::vector<int64_t> counts{6, 3, 0};
  TensorMap memory{};

  ClientView view(const State& global, int64_t round) { return {index, round, share, seed, global, counts, memory}; }
};

FedGrab make(FedGrabParams params, BalancerParams balancer = {}) { return {std::move(params), std::move(balancer)}; }

void expect_values(const torch::Tensor& tensor, const std::vector<double>& expected) {
  ASSERT_TRUE(tensor.defined());
  ASSERT_EQ(tensor.numel(), static_cast<int64_t>(expected.size()));
  for (size_t j = 0; j < expected.size(); ++j)
    EXPECT_NEAR(tensor[static_cast<int64_t>(j)].item<double>(), expected[j], 1e-6) << "class " << j;
}

/// Gradient of a rule's first head after a step of its own: the plain one only in the first step of a balancer.
torch::Tensor second_gradient(const HeadRule& head, TensorMap& memory, const LogitBatch& batch) {
  (*head.objective)(batch, memory);
  return (*head.objective)(batch, memory).gradient;
}

LogitBatch some_batch() {
  return {.logits = torch::tensor({{0.5F, -0.5F, 0.25F}, {1.0F, 0.0F, -1.0F}}),
          .labels = torch::tensor({0, 1}, torch::kLong)};
}

// ---- heads

struct HeadCase {
  const char* head;
  const char* prior;
  Role role;
  bool probe;
};

class FedGrabHeads : public testing::TestWithParam<HeadCase> {};
INSTANTIATE_TEST_SUITE_P(
    Options, FedGrabHeads,
    testing::Values(HeadCase{"frozen", "probe", Role::frozen, true}, HeadCase{"frozen", "fixed", Role::frozen, false},
                    HeadCase{"frozen", "local", Role::frozen, false}, HeadCase{"frozen", "none", Role::frozen, false},
                    HeadCase{"frozen-mean", "fixed", Role::frozen, false},
                    HeadCase{"frozen-mean", "probe", Role::frozen, true},
                    HeadCase{"follow", "probe", Role::frozen, true}, HeadCase{"follow", "fixed", Role::frozen, true},
                    HeadCase{"trained", "head", Role::shared, false},
                    HeadCase{"trained", "probe", Role::shared, true}));

TEST_P(FedGrabHeads, AreThoseOfTheOption) {
  const auto& [head, prior, role, probe] = GetParam();
  const auto method = make({.head = head, .prior = prior});
  const auto heads = method.heads();
  ASSERT_EQ(heads.size(), probe ? 2U : 1U);
  EXPECT_EQ(heads[0].name, "fc");
  EXPECT_EQ(heads[0].role, role);
  EXPECT_FALSE(heads[0].detached);
  if (probe) {
    EXPECT_EQ(heads[1].name, "probe");
    EXPECT_EQ(heads[1].role, Role::shared);
    EXPECT_TRUE(heads[1].detached);  // it reads and sends nothing back
  }
  // one rule per head, or the engine would leave one untrained
  const State global = initial_state(model_of(method), seed);
  Client client;
  EXPECT_EQ(method.client_rule(client.view(global, 1)).heads.size(), heads.size());
}

TEST(FedGrab, DefaultsToAFrozenHeadBesideAProbe) {
  Schema schema;
  declare_methods(schema);
  const auto method = find_method("fedgrab").make(Config(schema));
  ASSERT_EQ(method->heads().size(), 2U);
  EXPECT_EQ(method->heads()[0].role, Role::frozen);
  EXPECT_FALSE(method->centralised());
}

// ---- warm-up

TEST(FedGrab, WarmsUpWithThePlainObjectiveAndNoPrior) {
  const auto method = make({.head = "trained", .prior = "fixed", .warmup_rounds = 2});
  const State global = initial_state(model_of(method), seed);
  const auto batch = some_batch();
  for (const int64_t round : {1, 2}) {
    Client client;
    const auto rule = method.client_rule(client.view(global, round));
    EXPECT_FALSE(rule.heads[0].prior.defined());
    EXPECT_FALSE(method.shared_prior(global, round).defined());
    EXPECT_TRUE(torch::equal(second_gradient(rule.heads[0], client.memory, batch), softmax_loss(batch).gradient));
    EXPECT_TRUE(client.memory.empty());
    EXPECT_TRUE(method.diagnose(client.view(global, round)).empty());
  }
  Client client;
  const auto rule = method.client_rule(client.view(global, 3));
  EXPECT_TRUE(rule.heads[0].prior.defined());
  EXPECT_TRUE(method.shared_prior(global, 3).defined());
  const auto balanced = second_gradient(rule.heads[0], client.memory, batch);
  EXPECT_FALSE(torch::allclose(balanced, softmax_loss(batch).gradient));
  EXPECT_FALSE(torch::allclose(balanced, sigmoid_loss(batch).gradient));
  EXPECT_TRUE(client.memory.contains("sgb.positive"));
}

TEST(FedGrab, AFrozenHeadIsTrainedDuringWarmUpAndRestsAfterwards) {
  const auto method = make({.head = "frozen", .prior = "fixed", .warmup_rounds = 1});
  EXPECT_EQ(method.heads()[0].role, Role::shared);
  EXPECT_TRUE(method.heads()[0].detached);
  const State global = initial_state(model_of(method), seed);
  Client client;
  const auto warming = method.client_rule(client.view(global, 1));
  EXPECT_NE(warming.heads[0].objective, nullptr);
  EXPECT_EQ(warming.heads[0].backbone, warming.heads[0].objective);
  const auto settled = method.client_rule(client.view(global, 2));
  EXPECT_EQ(settled.heads[0].objective, nullptr);
  ASSERT_NE(settled.heads[0].backbone, nullptr);
  EXPECT_NE(settled.heads[0].backbone, warming.heads[0].backbone);
}

TEST(FedGrab, TrainsTheProbePlainlyInEveryRound) {
  const auto method = make({.prior = "probe", .warmup_rounds = 1});
  const State global = initial_state(model_of(method), seed);
  const auto batch = some_batch();
  for (const int64_t round : {1, 2}) {
    Client client;
    const auto rule = method.client_rule(client.view(global, round));
    ASSERT_EQ(rule.heads.size(), 2U);
    EXPECT_FALSE(rule.heads[1].prior.defined());
    EXPECT_TRUE(torch::equal(second_gradient(rule.heads[1], client.memory, batch), softmax_loss(batch).gradient));
    EXPECT_TRUE(client.memory.empty());
  }
}

// ---- where the prior comes from

TEST(FedGrabPrior, OfTheProbeAndTheHeadIsReadFromTheModelReceived) {
  for (const auto* source : {"probe", "head"}) {
    const auto method = make({.prior = source, .prior_scale = "max"});
    const State global = initial_state(model_of(method), seed);
    const std::string name = std::string(source) == "probe" ? "probe.weight" : "fc.weight";
    global.view(name).copy_(torch::tensor({{3.0F, 4.0F}, {0.0F, 1.0F}, {2.0F, 0.0F}}));  // norms 5, 1, 2
    Client client;
    const auto rule = method.client_rule(client.view(global, 1));
    expect_values(rule.heads[0].prior, {1, 0.2, 0.4});
    expect_values(method.shared_prior(global, 1), {1, 0.2, 0.4});
  }
}

TEST(FedGrabPrior, IsScaledAsAsked) {
  const auto of = [](const std::string& scale, double least) {
    const auto method = make({.prior_scale = scale, .span_min = least});
    const State global = initial_state(model_of(method), seed);
    global.view("probe.weight").copy_(torch::tensor({{3.0F, 4.0F}, {0.0F, 1.0F}, {2.0F, 0.0F}}));
    return method.shared_prior(global, 1);
  };
  expect_values(of("share", 0.1), {0.625, 0.125, 0.25});
  expect_values(of("span", 0.1), {1, 0.1, 0.325});
  expect_values(of("span", 0.2), {1, 0.2, 0.4});
}

TEST(FedGrabPrior, CanBeFixed) {
  const auto profile = make({.prior = "fixed"});
  const State global = initial_state(model_of(profile), seed);
  expect_values(profile.shared_prior(global, 1), {1, std::pow(0.1, 0.5), 0.1});
  const auto given = make({.prior = "fixed", .fixed_prior = {0.2, 0.9, 0}});
  expect_values(given.shared_prior(global, 1), {0.2, 0.9, 0});
  const auto short_one = make({.prior = "fixed", .fixed_prior = {0.2, 0.9}});
  expect_error(Fault::usage, [&] { short_one.shared_prior(global, 1); },
               {"method.fedgrab.fixed_prior", "2 values for 3"});
}

TEST(FedGrabPrior, OfLocalCountsIsEachClientsOwn) {
  const auto method = make({.prior = "local", .prior_scale = "max"});
  const State global = initial_state(model_of(method), seed);
  Client one, other{.index = 1, .counts = {0, 1, 4}};
  expect_values(method.client_rule(one.view(global, 1)).heads[0].prior, {1, 0.5, 0});
  expect_values(method.client_rule(other.view(global, 1)).heads[0].prior, {0, 0.25, 1});
  EXPECT_FALSE(method.shared_prior(global, 1).defined());  // nobody else knows it
}

TEST(FedGrabPrior, OfNoneExemptsNoClass) {
  const auto method = make({.prior = "none"});
  const State global = initial_state(model_of(method), seed);
  Client client;
  EXPECT_FALSE(method.client_rule(client.view(global, 1)).heads[0].prior.defined());
  EXPECT_FALSE(method.shared_prior(global, 1).defined());
}

// ---- the head over the rounds

/// One round: each client starts from the global model, adds `learnt` to all that it may train, and contributes.
void run_round(const FedGrab& method, State& global, std::vector<Client>& clients, int64_t round, float learnt) {
  Sums sums;
  TensorMap server;
  for (auto& client : clients) {
    const State local = global.clone();
    const auto view = client.view(global, round);
    method.prepare(view, local);
    method.client_rule(view);
    for (const auto& p : local.model->parameters)
      if (p.trained()) local.view(p).add_(learnt * static_cast<float>(client.index + 1));
    for (const auto& sent : method.contribute(view, {local, 1, 0.1, 0.0}))
      sums.add(sent.name, sent.values, sent.weight);
  }
  method.server_rule(global, sums, round, server);
}

std::vector<Client> three_to_one() { return {{.index = 0, .share = 0.75}, {.index = 1, .share = 0.25}}; }

TEST(FedGrabHead, FrozenStaysAtItsRandomStart) {
  const auto method = make({});
  State global = initial_state(model_of(method), seed);
  const State start = global.clone();
  auto clients = three_to_one();
  for (const int64_t round : {1, 2}) run_round(method, global, clients, round, 1);
  for (const auto* name : {"fc.weight", "fc.bias"})
    EXPECT_TRUE(torch::equal(global.view(name), start.view(name))) << name;
}

TEST(FedGrabProbe, IsAveragedAndForgets) {
  for (const double keep : {1.0, 0.5, 0.0}) {
    const auto method = make({.probe_keep = keep});
    State global = initial_state(model_of(method), seed);
    const State start = global.clone();
    auto clients = three_to_one();
    for (const int64_t round : {1, 2}) run_round(method, global, clients, round, 1);
    // 0.75 · 1 + 0.25 · 2 more in each round; the bias, of which no norm is read, forgets nothing
    const auto expected = ((start.view("probe.weight") + 1.25) * keep + 1.25) * keep;
    EXPECT_TRUE(torch::allclose(global.view("probe.weight"), expected)) << keep;
    EXPECT_TRUE(torch::allclose(global.view("probe.bias"), start.view("probe.bias") + 2.5)) << keep;
  }
}

TEST(FedGrabHead, TrainedIsAveraged) {
  const auto method = make({.head = "trained", .prior = "head"});
  State global = initial_state(model_of(method), seed);
  const State start = global.clone();
  auto clients = three_to_one();
  run_round(method, global, clients, 1, 1);
  EXPECT_TRUE(torch::allclose(global.view("fc.weight"), start.view("fc.weight") + 1.25));
}

TEST(FedGrabHead, FollowsTheProbe) {
  const auto method = make({.head = "follow"});
  State global = initial_state(model_of(method), seed);
  EXPECT_FALSE(torch::equal(global.view("fc.weight"), global.view("probe.weight")));
  auto clients = three_to_one();
  for (const int64_t round : {1, 2}) {
    run_round(method, global, clients, round, 1);
    EXPECT_TRUE(torch::equal(global.view("fc.weight"), global.view("probe.weight"))) << round;
    EXPECT_TRUE(torch::equal(global.view("fc.bias"), global.view("probe.bias"))) << round;
  }
}

TEST(FedGrabHead, FrozenMeanIsTheMeanOfTheClientsOwnRandomHeads) {
  const auto method = make({.head = "frozen-mean", .prior = "fixed"});
  State global = initial_state(model_of(method), seed);
  const State start = global.clone();
  auto clients = three_to_one();

  // each starts from a head of its own
  std::vector<State> own;
  for (auto& client : clients) {
    own.push_back(global.clone());
    method.prepare(client.view(global, 1), own.back());
    EXPECT_TRUE(torch::equal(own.back().view("bn1.weight"), start.view("bn1.weight")));
  }
  EXPECT_FALSE(torch::equal(own[0].view("fc.weight"), own[1].view("fc.weight")));
  EXPECT_FALSE(torch::equal(own[0].view("fc.weight"), start.view("fc.weight")));

  run_round(method, global, clients, 1, 1);
  for (const auto* name : {"fc.weight", "fc.bias"})
    EXPECT_TRUE(torch::allclose(global.view(name), 0.75 * own[0].view(name) + 0.25 * own[1].view(name), 1e-5, 1e-7))
        << name;
  EXPECT_TRUE(torch::allclose(global.view("bn1.weight"), start.view("bn1.weight") + 1.25));

  // from then on it is frozen for everyone
  const State after = global.clone();
  const State local = global.clone();
  method.prepare(clients[0].view(global, 2), local);
  EXPECT_TRUE(torch::equal(local.flat, global.flat));
  run_round(method, global, clients, 2, 1);
  EXPECT_TRUE(torch::equal(global.view("fc.weight"), after.view("fc.weight")));
}

TEST(FedGrabHead, FrozenMeanPaysForTheHeadsInTheFirstRound) {
  const auto method = make({.head = "frozen-mean", .prior = "fixed"});
  const State global = initial_state(model_of(method), seed);
  Client client;
  const auto bytes = [&](int64_t round) {
    int64_t sum = 0;
    for (const auto& sent : method.contribute(client.view(global, round), {global, 1, 0.1, 0.0})) sum += sent.bytes;
    return sum;
  };
  EXPECT_EQ(bytes(1) - bytes(2), (3 * 2 + 3) * 4);
  EXPECT_EQ(bytes(2), shared_bytes(*global.model));
}

// ---- the slips of the published code

TEST(FedGrabPublished, PriorIsTheFixedOneThroughItsGate) {
  const auto method = make({.head = "frozen-mean", .prior = "published"});
  const State global = initial_state(model_of(method), seed);
  expect_values(method.shared_prior(global, 1),
                {1, std::sqrt(0.1), std::sqrt(0.1) * 0.1 + (1 - std::sqrt(0.1)) * std::sqrt(0.1)});
  EXPECT_EQ(method.heads().size(), 1U);
}

TEST(FedGrabPublished, AveragesEachClientWithTheWeightOfAnother) {
  const std::vector<int64_t> clients{1, 4, 6, 7}, sizes{10, 20, 30, 40};
  const auto weights = [&](bool shuffled, int64_t round) {
    auto method = make({.prior = "none", .shuffled_weights = shuffled});
    const State global = initial_state(model_of(method), seed);
    method.begin_round(round, seed, clients, sizes);
    std::vector<double> given;
    for (size_t k = 0; k < clients.size(); ++k) {
      Client client{.index = clients[k], .share = static_cast<double>(sizes[k]) / 100};
      given.push_back(method.contribute(client.view(global, round), {global, 1, 0.1, 0.0}).front().weight);
    }
    return given;
  };
  const std::vector<double> own{0.1, 0.2, 0.3, 0.4};
  EXPECT_EQ(weights(false, 1), own);
  std::set<std::vector<double>> orders;
  for (int64_t round = 1; round <= 8; ++round) {
    auto given = weights(true, round);
    EXPECT_EQ(weights(true, round), given);
    orders.insert(given);
    std::sort(given.begin(), given.end());
    EXPECT_EQ(given, own);
  }
  EXPECT_GT(orders.size(), 3U);
}

// ---- memory and diagnostics

TEST(FedGrabMemory, IsKeptOverRoundsUnlessReset) {
  const auto batch = some_batch();
  for (const bool reset : {false, true}) {
    const auto method = make({.prior = "none"}, {.reset = reset});
    const State global = initial_state(model_of(method), seed);
    Client client;
    const auto step = [&](int64_t round) {
      const auto rule = method.client_rule(client.view(global, round));
      return (*rule.heads[0].objective)(batch, client.memory).gradient;
    };
    const auto first = step(1);
    EXPECT_TRUE(torch::equal(first, sigmoid_loss(batch).gradient));
    EXPECT_EQ(torch::equal(step(2), first), reset);
  }
}

TEST(FedGrabMemory, IsDiagnosedAsDeltaAndBeta) {
  const auto method = make({});
  const State global = initial_state(model_of(method), seed);
  Client client;
  EXPECT_TRUE(method.diagnose(client.view(global, 1)).empty());  // nothing collected, nothing to tell

  const auto row = [](std::vector<double> values) { return torch::tensor(values, torch::kDouble); };
  client.memory = {{"sgb.positive", row({3, 1, 0})},
                   {"sgb.negative", row({1, 1, 0.5})},
                   {"sgb.error", row({0, 0, 0})},
                   {"sgb.error_sum", row({0, 0, 0})},
                   {"sgb.output", row({-2, 0, 100})}};
  auto told = method.diagnose(client.view(global, 1));
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told["delta"], (std::vector<double>{2, 0, -0.5}));
  const auto weight = [](double u) { return 10 / (1 + 9 * std::exp(-0.5 * u)); };
  for (size_t j = 0; j < 3; ++j) {
    const double u = std::vector<double>{-2, 0, 100}[j];
    EXPECT_NEAR(told["beta_pos"][j], weight(u), 1e-9) << j;
    EXPECT_NEAR(told["beta_neg"][j], weight(-u), 1e-9) << j;
  }
}

// ---- where the head starts

State started(const Method& method, const std::string& network = "cnn") {
  State global = initial_state(make_model(make_architecture(network, {3, 32, 32}), method.heads(), 10), seed);
  method.initialise(global, seed);
  return global;
}

TEST(FedGrabHead, FrozenStartsAsASimplexWithTheChanceOfAClass) {
  const auto method = make({});
  const State global = started(method);
  const auto& weight = global.view("fc.weight");
  EXPECT_NEAR(weight[0].dot(weight[1]).item<double>(), -4.0 / 9, 1e-6);
  // Features of zero: every sigmoid says 1/M.
  const auto chance = torch::sigmoid(global.view("fc.bias") * method.heads()[0].scale);
  EXPECT_LT((chance - 0.1).abs().max().item<double>(), 1e-6);
}

TEST(FedGrabHead, RowsAreAsShortAsFeaturesAreMany) {
  const auto length = [](const Method& method, const char* network) {
    return method.heads()[0].scale * started(method, network).view("fc.weight")[0].norm().item<double>();
  };
  EXPECT_NEAR(length(make({}), "cnn"), 2, 1e-5);  // 64 features
  EXPECT_NEAR(length(make({}), "resnet18"), 16 / std::sqrt(512), 1e-5);
  EXPECT_NEAR(length(make({.head_scale = 3}), "resnet18"), 3, 1e-5);
}

TEST(FedGrabHead, OtherHeadsStartLikeAnyLayer) {
  for (const char* head : {"frozen-mean", "follow", "trained"}) {
    const auto method = make({.head = head});
    EXPECT_EQ(method.heads()[0].scale, 1) << head;
    const State plain = initial_state(make_model(make_architecture("cnn", {3, 32, 32}), method.heads(), 10), seed);
    EXPECT_TRUE(torch::equal(started(method).flat, plain.flat)) << head;
  }
}

TEST(FedGrabHead, BiasIsGivenAsLogits) {
  const State one = started(make({.head_bias = {-3}, .head_scale = 4}));
  EXPECT_TRUE(torch::allclose(one.view("fc.bias"), torch::full({10}, -3.0F)));
  EXPECT_THROW(started(make({.head_bias = {-3, 1}})), std::runtime_error);
}

TEST(FedGrabHead, CosineHasNoBias) {
  const auto method = make({.head_kind = "cosine"});
  EXPECT_FALSE(method.heads()[0].bias);
  EXPECT_EQ(method.heads()[0].scale, 10);
  EXPECT_NO_THROW(started(method));
}

std::string said_at_the_start(const FedGrab& method, const std::string& network, int64_t classes) {
  State global = initial_state(make_model(make_architecture(network, {3, 32, 32}), method.heads(), classes), seed);
  testing::internal::CaptureStderr();
  method.initialise(global, seed);
  return testing::internal::GetCapturedStderr();
}

TEST(FedGrabHead, SaysWhereClassesAreMoreThanFeatures) {
  EXPECT_EQ(said_at_the_start(make({}), "cnn", 64), "");
  EXPECT_NE(said_at_the_start(make({}), "cnn", 65).find("65 classes and 64 features"), std::string::npos);
}

TEST(FedGrabHead, SaysWhereBalancersAreTooStrongForTheNetwork) {
  EXPECT_NE(said_at_the_start(make({}), "pfl-cnn", 10).find("pfl-cnn has no BatchNorm"), std::string::npos);
  EXPECT_EQ(said_at_the_start(make({}, {.gamma = 3, .delta = 2}), "pfl-cnn", 10), "");
}

}  // namespace fedgrab::fedgrab_test
