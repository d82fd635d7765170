/// The methods that do something of their own to the head.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "fedgrab/core/random.h"
#include "fedgrab/model/network.h"
#include "method/creff.h"
#include "method/fedloge.h"
#include "tests/data/scratch_folder.h"
#include "tests/method/tiny.h"

namespace fedgrab::head_rules_test {

constexpr uint64_t seed = 5;

State start_of(const Method& method, int64_t features, int64_t classes) {
  State state = initial_state(tiny_model(method.heads(), features, classes), seed);
  method.initialise(state, seed);
  return state;
}

torch::Tensor normal(at::IntArrayRef shape, uint32_t stream, torch::Dtype type = torch::kFloat) {
  auto values = torch::empty(shape, torch::kDouble);
  Random random(seed, Purpose::synthetic, stream);
  auto* data = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) data[i] = random.normal();
  return values.to(type);
}

torch::Tensor lengths(const torch::Tensor& rows) { return rows.norm(2, {1}); }

void expect_near(const torch::Tensor& got, const torch::Tensor& expected, double tolerance = 1e-5) {
  EXPECT_LT((got.to(torch::kDouble) - expected.to(torch::kDouble)).abs().max().item<double>(), tolerance)
      << got << "\ninstead of\n"
      << expected;
}

/// Everything but the parameters named must be the same to the bit.
void expect_same_but(const State& a, const State& b, const std::vector<std::string>& names) {
  for (const auto& p : a.model->parameters) {
    const bool named = std::find(names.begin(), names.end(), p.name) != names.end();
    EXPECT_TRUE(named || torch::equal(a.view(p), b.view(p))) << p.name;
  }
}

// ---- τ-norm

TEST(TauNorm, ZeroChangesNothingToTheBit) {
  const auto method = make_method("tau-norm", {{"tau", 0.0}});
  const State global = start_of(*method, 4, 3);
  const State deployed = method->deployed(global, no_tensors);
  EXPECT_TRUE(torch::equal(deployed.flat, global.flat));
  EXPECT_NE(deployed.flat.data_ptr(), global.flat.data_ptr());  // training goes on from the one it has
}

TEST(TauNorm, OneGivesRowsOfLengthOneAndKeepsTheirDirections) {
  const auto method = make_method("tau-norm", {{"tau", 1.0}});
  const State global = start_of(*method, 4, 3);
  const auto before = global.flat.clone();
  const State deployed = method->deployed(global, no_tensors);
  const auto rows = global.view("fc.weight");
  expect_near(lengths(deployed.view("fc.weight")), torch::ones({3}), 1e-6);
  expect_near(deployed.view("fc.weight"), rows / lengths(rows).unsqueeze(1), 1e-6);
  expect_same_but(deployed, global, {"fc.weight"});  // the bias is kept
  EXPECT_TRUE(torch::equal(global.flat, before));
}

TEST(TauNorm, BetweenTheyShrinkByAPowerOfTheirLength) {
  const auto method = make_method("tau-norm", {{"tau", 0.5}});
  const State global = start_of(*method, 2, 2);
  global.view("fc.weight").copy_(torch::tensor({{0.0F, 4.0F}, {0.6F, 0.8F}}));
  expect_near(method->deployed(global, no_tensors).view("fc.weight"), torch::tensor({{0.0F, 2.0F}, {0.6F, 0.8F}}));
}

TEST(TauNorm, DropsTheBiasWhereAsked) {
  for (const double tau : {0.0, 1.0}) {
    const auto method = make_method("tau-norm", {{"tau", tau}, {"drop_bias", true}});
    const State deployed = method->deployed(start_of(*method, 4, 3), no_tensors);
    EXPECT_TRUE((deployed.view("fc.bias") == 0).all().item<bool>());
  }
}

TEST(TauNorm, ARowOfZerosStaysOne) {
  const auto method = make_method("tau-norm");
  const State global = start_of(*method, 4, 3);
  global.view("fc.weight")[1].zero_();
  const auto rows = method->deployed(global, no_tensors).view("fc.weight");
  EXPECT_TRUE(rows.isfinite().all().item<bool>());
  EXPECT_TRUE((rows[1] == 0).all().item<bool>());
}

// ---- CReFF: class gradients and matching

TEST(CreffGradients, AreAutogradsOfTheMeanCrossEntropy) {
  const int64_t classes = 4, width = 5, each = 3;
  const auto w = normal({classes, width}, 1, torch::kDouble).requires_grad_();
  const auto b = normal({classes}, 2, torch::kDouble).requires_grad_();
  const auto features = normal({classes, each, width}, 3, torch::kDouble);
  const auto got = class_gradients(Classifier{w, b}, features).detach();
  ASSERT_EQ(got.sizes(), at::IntArrayRef({classes, classes, width + 1}));
  for (int64_t c = 0; c < classes; ++c) {
    const auto loss =
        torch::nn::functional::cross_entropy(at::linear(features[c], w, b), torch::full({each}, c, torch::kLong));
    const auto slopes = torch::autograd::grad({loss}, {w, b});
    expect_near(got[c].narrow(1, 0, width), slopes[0], 1e-12);
    expect_near(got[c].select(1, width), slopes[1], 1e-12);  // the bias comes last
  }
}

TEST(CreffGradients, OfLabelledSamplesAreThoseOfEachClassAndZeroWhereThereIsNone) {
  const Classifier head{normal({3, 5}, 1), normal({3}, 2)};
  const auto features = normal({6, 5}, 3);
  const auto labels = torch::tensor({2, 0, 2, 0, 0, 2}, torch::kLong);
  const auto got = class_gradients(head, features, labels);
  for (const int64_t c : {0, 2}) {
    const auto own = features.index_select(0, (labels == c).nonzero().squeeze(1));
    expect_near(got[c], class_gradients(head, own.unsqueeze(0).expand({3, 3, 5}))[c], 1e-6);
  }
  EXPECT_TRUE((got[1] == 0).all().item<bool>());
}

TEST(CreffMatching, LossIsZeroForTheSameDirectionsAndAddsRowsAndBias) {
  const auto real = normal({3, 3, 5}, 1, torch::kDouble);
  const auto all = torch::ones({3}, torch::kBool);
  EXPECT_NEAR(matching_loss(real, real * 7, all).item<double>(), 0, 1e-4);
  // Against its opposite each of the three rows and the bias, as one, is 2 away; for the classes marked alone.
  EXPECT_NEAR(matching_loss(real, -real, all).item<double>(), 3 * (3 + 1) * 2, 1e-4);
  EXPECT_NEAR(matching_loss(real, -real, torch::tensor({true, false, true})).item<double>(), 2 * (3 + 1) * 2, 1e-4);
}

TEST(CreffMatching, StepsDownTheSlopeOfTheLoss) {
  // Against differences in double: the step's second derivatives are the part that is easy to get wrong.
  const Classifier head{normal({2, 3}, 1, torch::kDouble), normal({2}, 2, torch::kDouble)};
  const auto real = class_gradients(head, normal({2, 4, 3}, 3, torch::kDouble));
  const auto all = torch::ones({2}, torch::kBool);
  const auto start = normal({2, 2, 3}, 4, torch::kDouble);
  auto moved = start.clone();
  const double first = match_features(moved, head, real, all, 1, 0.1);
  const auto loss = [&](const torch::Tensor& at) { return matching_loss(real, class_gradients(head, at), all); };
  EXPECT_NEAR(first, loss(start).item<double>(), 1e-12);
  for (int64_t i = 0; i < start.numel(); ++i) {
    auto up = start.clone(), down = start.clone();
    up.view(-1)[i] += 1e-6;
    down.view(-1)[i] -= 1e-6;
    const double slope = (loss(up) - loss(down)).item<double>() / 2e-6;
    EXPECT_NEAR((moved - start).view(-1)[i].item<double>(), -0.1 * slope, 1e-7);
  }
}

// ---- CReFF: a long-tailed toy

/// Features in five Gaussian clouds, of which the last classes have few samples.
struct Clouds {
  static constexpr int64_t classes = 5, width = 8;
  const std::vector<int64_t> counts{400, 150, 50, 15, 4};
  torch::Tensor centres = normal({classes, width}, 10) * 0.9;
  torch::Tensor train, train_labels, test, test_labels;

  Clouds() {
    const auto draw = [&](const std::vector<int64_t>& sizes, uint32_t stream) {
      std::vector<int64_t> labels;
      for (size_t c = 0; c < sizes.size(); ++c) labels.insert(labels.end(), static_cast<size_t>(sizes[c]), c);
      const auto at = torch::tensor(labels, torch::kLong);
      return std::pair{centres.index_select(0, at) + normal({at.numel(), width}, stream), at};
    };
    std::tie(train, train_labels) = draw(counts, 11);
    std::tie(test, test_labels) = draw(std::vector<int64_t>(classes, 200), 12);
  }
  /// Accuracy on the two rarest classes.
  double tail_accuracy(const Classifier& head) const {
    const auto right = at::linear(test, head.weight, head.bias).argmax(1) == test_labels;
    return right.narrow(0, 3 * 200, 2 * 200).to(torch::kFloat).mean().item<double>();
  }
  /// Plain gradient descent on the long-tailed samples.
  Classifier trained() const {
    Classifier head{torch::zeros({classes, width}), torch::zeros({classes})};
    const auto truth = torch::eye(classes).index_select(0, train_labels);
    for (int step = 0; step < 300; ++step) {
      const auto error = (at::linear(train, head.weight, head.bias).softmax(1) - truth) / double(train.size(0));
      head.weight -= 0.5 * error.t().matmul(train);
      head.bias -= 0.5 * error.sum(0);
    }
    return head;
  }
};

TEST(CreffToy, MatchingBringsTheGradientsCloser) {
  const Clouds clouds;
  const auto head = clouds.trained();
  const auto real = class_gradients(head, clouds.train, clouds.train_labels);
  const auto all = torch::ones({Clouds::classes}, torch::kBool);
  auto features = normal({Clouds::classes, 20, Clouds::width}, 20);
  const double first = match_features(features, head, real, all, 100, 0.1);
  const double last = matching_loss(real, class_gradients(head, features), all).item<double>();
  EXPECT_LT(last, 0.5 * first);
}

TEST(CreffToy, UnmarkedClassesKeepTheirFeatures) {
  const Clouds clouds;
  const auto head = clouds.trained();
  const auto real = class_gradients(head, clouds.train, clouds.train_labels);
  const auto start = normal({Clouds::classes, 20, Clouds::width}, 20);
  auto features = start.clone();
  match_features(features, head, real, torch::tensor({true, true, true, true, false}), 5, 0.1);
  EXPECT_TRUE(torch::equal(features[4], start[4]));
  EXPECT_FALSE(torch::equal(features[3], start[3]));
}

TEST(CreffToy, TheHeadTrainedOnMatchedFeaturesIsBetterOnTheTail) {
  const Clouds clouds;
  const auto biased = clouds.trained();
  auto features = normal({Clouds::classes, 50, Clouds::width}, 20);
  Classifier head{normal({Clouds::classes, Clouds::width}, 21) * 0.1, torch::zeros({Clouds::classes})};
  const auto all = torch::ones({Clouds::classes}, torch::kBool);
  for (uint32_t round = 1; round <= 10; ++round) {
    match_features(features, head, class_gradients(head, clouds.train, clouds.train_labels), all, 100, 0.1);
    head = {normal({Clouds::classes, Clouds::width}, 30 + round) * 0.1, torch::zeros({Clouds::classes})};
    retrain(head, features, 100, 32, 0.01, seed, round);
  }
  EXPECT_GT(clouds.tail_accuracy(head), clouds.tail_accuracy(biased) + 0.1);
}

TEST(CreffToy, RetrainingIsSgdOnTheCrossEntropyAndFollowsFromItsSeed) {
  const auto features = normal({3, 4, 5}, 1);
  const Classifier start{normal({3, 5}, 2), normal({3}, 3)};
  // One batch of everything: the mean gradient over the classes, whatever the order.
  Classifier one{start.weight.clone(), start.bias.clone()};
  retrain(one, features, 1, 12, 0.1, seed, 1);
  const auto slope = class_gradients(start, features).mean(0);
  expect_near(one.weight, start.weight - 0.1 * slope.narrow(1, 0, 5), 1e-6);
  expect_near(one.bias, start.bias - 0.1 * slope.select(1, 5), 1e-6);
  const auto retrained = [&](uint32_t round) {
    Classifier head{start.weight.clone(), start.bias.clone()};
    retrain(head, features, 3, 5, 0.1, seed, round);  // the last batch of each pass is smaller
    return head.weight;
  };
  EXPECT_TRUE(torch::equal(retrained(1), retrained(1)));
  EXPECT_FALSE(torch::equal(retrained(1), retrained(2)));
}

// ---- CReFF: the method

class Creff : public testing::Test {
 protected:
  struct Client {
    std::vector<int64_t> labels;
    torch::Tensor features;
    std::vector<int64_t> counts{0, 0, 0};
    TensorMap memory{};
  };
  static Client client(const std::vector<int64_t>& labels, uint32_t stream) {
    Client made{labels, normal({static_cast<int64_t>(labels.size()), 4}, stream)};
    for (const int64_t label : labels) ++made.counts[static_cast<size_t>(label)];
    return made;
  }
  /// What the clients send.
  void round(int64_t index, std::vector<Client>& clients, Sums& sums) {
    method_->begin_round(index, seed, {}, {});
    for (auto& c : clients) {
      const ClientView view{
          .round = index, .share = 0.5, .global = global_, .counts = c.counts, .memory = c.memory, .server = server_};
      method_->observe(view, c.features, torch::tensor(c.labels, torch::kLong));
      for (const auto& sent : method_->contribute(view, {global_, 1, 0.1, 0})) {
        sums.add(sent.name, sent.values, sent.weight);
        bytes_ += sent.bytes;
      }
    }
  }
  void train(int64_t index, std::vector<Client>& clients) {
    Sums sums;
    round(index, clients, sums);
    method_->server_rule(global_, sums, index, server_);
  }

  std::unique_ptr<Method> method_ =
      make_method("creff", {{"features", int64_t{6}}, {"match_steps", int64_t{5}}, {"retrain_epochs", int64_t{4}}});
  State global_ = start_of(*method_, 4, 3);
  TensorMap server_;
  int64_t bytes_ = 0;
};

TEST_F(Creff, RefusesModelsWhoseGradientsAreTooLargeToSend) {
  const auto model = [&](int64_t features) {
    return State{make_model({"wide", {1, 1, 1}, {Layer{LayerKind::flatten, "", -1}}, features}, {Head{}}, 1024), {}};
  };
  State fits = model(63), large = model(64);  // 1024² · 64 numbers is the limit
  EXPECT_NO_THROW(method_->initialise(fits, seed));
  expect_error(Fault::usage, [&] { method_->initialise(large, seed); }, {"creff", "68157440", "67108864"});
}

TEST_F(Creff, ClientsSendGradientsOfTheHeadTheServerHolds) {
  server_ = {{"creff.weight", normal({3, 4}, 1)}, {"creff.bias", normal({3}, 2)}};
  std::vector<Client> clients{client({0, 0, 1}, 3)};
  Sums sums;
  round(2, clients, sums);
  const Classifier head{server_["creff.weight"], server_["creff.bias"]};
  expect_near(sums["creff.gradients"].view({3, 3, 5}),
              class_gradients(head, clients[0].features, torch::tensor({0, 0, 1}, torch::kLong)), 1e-6);
  expect_near(sums["creff.present"], torch::tensor({1.0F, 1.0F, 0.0F}));
  EXPECT_TRUE(clients[0].memory.empty());                           // nothing is kept for the next round
  EXPECT_GE(bytes_, shared_bytes(*global_.model) + 2 * 3 * 5 * 4);  // two classes of three
  EXPECT_LT(bytes_, shared_bytes(*global_.model) + 2 * 3 * 5 * 4 + 4);
  EXPECT_EQ(method_->bytes_down(*global_.model), shared_bytes(*global_.model) + 3 * 5 * 4);
}

TEST_F(Creff, MatchesThePlainMeanOverTheClientsThatHaveTheClass) {
  // Class 0: both clients, one with three times the samples; class 1: one of them; class 2: nobody.
  std::vector<Client> clients{client({0, 0, 0, 1}, 3), client({0}, 4)};
  const auto start = normal({3, 6, 4}, 5);
  server_ = {{"creff.weight", normal({3, 4}, 1)}, {"creff.bias", normal({3}, 2)}, {"creff.features", start.clone()}};
  const Classifier head{server_["creff.weight"], server_["creff.bias"]};
  auto real = torch::zeros({3, 3, 5});
  for (const auto& c : clients) real += class_gradients(head, c.features, torch::tensor(c.labels, torch::kLong));
  real[0] /= 2;
  train(1, clients);
  auto expected = start.clone();
  match_features(expected, head, real, torch::tensor({true, true, false}), 5, 0.1);
  expect_near(server_["creff.features"], expected, 1e-5);
  EXPECT_TRUE(torch::equal(server_["creff.features"][2], start[2]));
}

TEST_F(Creff, HandsOutTheRetrainedHeadAndTrainsWithTheOther) {
  const State before = global_.clone();
  EXPECT_TRUE(torch::equal(method_->deployed(global_, server_).flat, before.flat));  // before round 1 there is none
  std::vector<Client> clients{client({0, 1, 2}, 3), client({0, 0}, 4)};
  train(1, clients);
  EXPECT_TRUE(torch::equal(global_.view("fc.weight"), before.view("fc.weight")));  // the average of what was sent
  const State deployed = method_->deployed(global_, server_);
  EXPECT_TRUE(torch::equal(deployed.view("fc.weight"), server_.at("creff.weight")));
  EXPECT_TRUE(torch::equal(deployed.view("fc.bias"), server_.at("creff.bias")));
  EXPECT_FALSE(torch::equal(deployed.view("fc.weight"), global_.view("fc.weight")));
  expect_same_but(deployed, global_, {"fc.weight", "fc.bias"});
}

TEST_F(Creff, KeepsItsFeaturesFromRoundToRound) {
  std::vector<Client> clients{client({0, 1, 2}, 3)};
  train(1, clients);
  const auto first = server_.at("creff.features").clone();
  ASSERT_EQ(first.sizes(), at::IntArrayRef({3, 6, 4}));
  train(2, clients);
  const double step = (server_.at("creff.features") - first).abs().mean().item<double>();
  EXPECT_GT(step, 0);
  EXPECT_LT(step, 0.3);  // new noise would be about one away
}

// ---- FedETF

TEST(FedEtf, HeadIsASimplexThatNobodyMoves) {
  const auto method = make_method("fedetf");
  State global = start_of(*method, 6, 4);
  const auto rows = global.view("fc.weight").clone();
  // cos = −1/(M − 1) between every two, length 1
  expect_near(rows.matmul(rows.t()), torch::eye(4) * (4.0 / 3) - 1.0 / 3, 1e-5);
  EXPECT_EQ(global.model->find("fc.weight").role, Role::frozen);
  EXPECT_FALSE(method->heads().front().bias);

  State local = global.clone();
  local.flat.add_(1);  // a client that tampers with everything
  TensorMap memory, server;
  Sums sums;
  for (const auto& sent : method->contribute({.share = 1, .global = global, .memory = memory}, {local, 1, 0.1, 0}))
    sums.add(sent.name, sent.values, sent.weight);
  method->server_rule(global, sums, 1, server);
  EXPECT_TRUE(torch::equal(global.view("fc.weight"), rows));
  for (const auto* name : {"fc.projection.weight", "fc.projection.bias", "fc.temperature", "bn1.weight"})
    EXPECT_TRUE(torch::equal(global.view(name), local.view(name))) << name;
}

TEST(FedEtf, LogitsAreScaledCosinesOfTheProjectionAndTheSimplexTakesNoGradient) {
  const auto method = make_method("fedetf", {{"scale", 7.0}});
  const State global = start_of(*method, 6, 4);
  EXPECT_EQ(global.view("fc.temperature").item<float>(), 1);
  global.view("fc.temperature").fill_(1.5);
  Network network(global.model);
  network.load(global);
  const auto images = normal({5, 6, 1, 1}, 1);
  const auto output = network.forward_training(images);
  auto z = at::linear(output.features, global.view("fc.projection.weight"), global.view("fc.projection.bias"));
  z = z / z.norm(2, {1}, true);
  expect_near(output.logits[0].detach(), z.matmul(global.view("fc.weight").t()).detach() * (7 * 1.5), 1e-4);
  network.backward(output, {normal({5, 4}, 2)});
  const State gradient{global.model, network.gradient()};
  EXPECT_TRUE((gradient.view("fc.weight") == 0).all().item<bool>());
  for (const auto* name : {"fc.projection.weight", "fc.projection.bias", "fc.temperature", "bn1.weight"})
    EXPECT_TRUE((gradient.view(name) != 0).any().item<bool>()) << name;
}

TEST(FedEtf, TrainsByBalancedSoftmaxOfTheClientsOwnCounts) {
  const auto method = make_method("fedetf");
  const State global = start_of(*method, 6, 4);
  TensorMap memory;
  const auto rule = method->client_rule({.global = global, .memory = memory});
  EXPECT_FALSE(rule.class_sizes.defined());  // the engine gives the client's own
  const LogitBatch batch{.logits = torch::zeros({1, 4}),
                         .labels = torch::tensor({0}, torch::kLong),
                         .counts = torch::tensor({6.0F, 3.0F, 1.0F, 0.0F})};
  const auto gradient = (*rule.heads.front().objective)(batch, memory).gradient;
  // Shares of 6, 3, 1 and, for the class it lacks, 1.
  expect_near(gradient, torch::tensor({{6.0 / 11 - 1, 3.0 / 11, 1.0 / 11, 1.0 / 11}}), 1e-6);
}

// ---- FedLoGe: the sparse simplex

/// The smallest angle of every row to another one, on average.
double mean_least_angle(const torch::Tensor& rows) {
  const auto unit = (rows / rows.norm(2, {1}, true)).to(torch::kDouble);
  const auto cosines = unit.matmul(unit.t()) - 2 * torch::eye(rows.size(0));
  return torch::acos(std::get<0>(cosines.max(1))).mean().item<double>();
}
double least_angle(const torch::Tensor& rows) {
  const auto unit = (rows / rows.norm(2, {1}, true)).to(torch::kDouble);
  return std::acos((unit.matmul(unit.t()) - 2 * torch::eye(rows.size(0))).max().item<double>());
}

TEST(SparseEtf, HasTheShareOfZerosAndRowsOfTheLength) {
  for (const double length : {0.1, 1.0, 3.0})
    for (const double sparsity : {0.3, 0.6}) {
      auto rows = torch::empty({10, 400});
      make_sparse_etf(rows, sparsity, length, 50, seed);
      EXPECT_NEAR((rows == 0).to(torch::kFloat).mean().item<double>(), sparsity, 0.03);
      expect_near(lengths(rows) / length, torch::ones({10}), 1e-5);
    }
}

TEST(SparseEtf, OptimisingSpreadsTheRowsAndKeepsTheZeros) {
  for (const double length : {0.1, 1.0}) {
    auto masked = torch::empty({10, 32}), spread = torch::empty({10, 32});
    make_sparse_etf(masked, 0.6, length, 0, seed);
    make_sparse_etf(spread, 0.6, length, 1000, seed);
    EXPECT_TRUE(torch::equal(masked == 0, spread == 0));
    EXPECT_GT(least_angle(spread), least_angle(masked) + 0.1);
    EXPECT_GT(mean_least_angle(spread), mean_least_angle(masked) + 0.05);
    EXPECT_GT(least_angle(spread), std::numbers::pi / 2 - 0.05);  // a simplex of ten has 96 degrees
  }
}

TEST(SparseEtf, WithoutSparsityIsTheSimplex) {
  auto rows = torch::empty({5, 12});
  make_sparse_etf(rows, 0, 1, 0, seed);
  expect_near(rows.matmul(rows.t()), torch::eye(5) * 1.25 - 0.25, 1e-5);
}

TEST(SparseEtf, FollowsFromItsSeed) {
  auto one = torch::empty({5, 12}), same = torch::empty({5, 12}), other = torch::empty({5, 12});
  make_sparse_etf(one, 0.6, 1, 20, seed);
  make_sparse_etf(same, 0.6, 1, 20, seed);
  make_sparse_etf(other, 0.6, 1, 20, seed + 1);
  EXPECT_TRUE(torch::equal(one, same));
  EXPECT_FALSE(torch::equal(one, other));
}

// ---- FedLoGe: the method

class FedLoge : public testing::Test {
 protected:
  std::unique_ptr<Method> method_ = make_method("fedloge", {{"steps", int64_t{50}}});
  State global_ = start_of(*method_, 16, 4);
  TensorMap server_;
};

TEST_F(FedLoge, HasAFixedHeadForTheBackboneAndTwoThatOnlyRead) {
  const auto heads = method_->heads();
  ASSERT_EQ(heads.size(), 3U);
  EXPECT_EQ(heads[0].role, Role::frozen);
  EXPECT_FALSE(heads[0].detached);
  EXPECT_EQ(heads[1].role, Role::shared);
  EXPECT_EQ(heads[2].role, Role::personal);
  EXPECT_TRUE(heads[1].detached && heads[2].detached);
  TensorMap memory;
  const auto rule = method_->client_rule({.global = global_, .memory = memory});
  ASSERT_EQ(rule.heads.size(), 3U);  // one each, or the engine would leave one untrained
  for (const auto& head : rule.heads) EXPECT_NE(head.objective, nullptr);
  auto expected = torch::empty({4, 16});
  make_sparse_etf(expected, 0.6, 1, 50, seed);
  EXPECT_TRUE(torch::equal(global_.view("fc.weight"), expected));
}

TEST_F(FedLoge, LocalHeadsStayWithTheirClientsAndComeBackToThem) {
  std::vector<TensorMap> memories(2);
  std::vector<State> locals;
  const State before = global_.clone();
  Sums sums;
  for (size_t k = 0; k < 2; ++k) {
    const ClientView view{.client = static_cast<int64_t>(k), .share = 0.5, .global = global_, .memory = memories[k]};
    State local = global_.clone();
    method_->prepare(view, local);
    expect_same_but(local, global_, {"local.weight", "local.bias"});  // which every client draws for itself
    EXPECT_FALSE(torch::equal(local.view("local.weight"), global_.view("local.weight")));
    local.flat.add_(static_cast<double>(k) + 1);
    for (const auto& sent : method_->contribute(view, {local, 1, 0.1, 0}))
      sums.add(sent.name, sent.values, sent.weight);
    locals.push_back(local.clone());
    local.flat.zero_();  // the engine trains the next client in the same place
  }
  method_->server_rule(global_, sums, 1, server_);
  for (const auto* name : {"fc.weight", "fc.bias", "local.weight", "local.bias"})
    EXPECT_TRUE(torch::equal(global_.view(name), before.view(name))) << name;
  expect_near(global_.view("aux.weight"), before.view("aux.weight") + 1.5);
  std::vector<State> next;
  for (size_t k = 0; k < 2; ++k) {
    State local = global_.clone();
    method_->prepare({.round = 2, .global = global_, .memory = memories[k]}, local);
    for (const auto* name : {"local.weight", "local.bias"})
      EXPECT_TRUE(torch::equal(local.view(name), locals[k].view(name))) << name;
    expect_same_but(local, global_, {"local.weight", "local.bias"});
    next.push_back(local);
  }
  EXPECT_FALSE(torch::equal(next[0].view("local.weight"), next[1].view("local.weight")));
}

TEST_F(FedLoge, HandsOutTheAuxiliaryHeadWithRowsOfOneLength) {
  const State deployed = method_->deployed(global_, server_);
  const auto rows = deployed.view("fc.weight"), aux = global_.view("aux.weight");
  expect_near(lengths(rows), torch::full({4}, 1.7), 1e-5);
  expect_near(rows / 1.7, aux / lengths(aux).unsqueeze(1), 1e-5);
  EXPECT_TRUE(torch::equal(deployed.view("fc.bias"), global_.view("aux.bias")));
  expect_same_but(deployed, global_, {"fc.weight", "fc.bias"});
  const auto other = make_method("fedloge", {{"aligned", 3.0}});
  expect_near(lengths(other->deployed(global_, server_).view("fc.weight")), torch::full({4}, 3.0), 1e-5);
}

TEST_F(FedLoge, PersonalisedAddsBothHeadsAndMasksTheClassesTheClientLacks) {
  const std::vector<int64_t> counts{5, 0, 2, 0};
  TensorMap memory;
  const State own = method_->personalised({.global = global_, .counts = counts, .memory = memory}, global_);
  const auto local = global_.view("local.weight"), aux = global_.view("aux.weight");
  // LA-L: each of the auxiliary head's rows by the length of the local one.
  expect_near(own.view("fc.weight"), local + aux * lengths(local).unsqueeze(1), 1e-5);
  expect_same_but(own, global_, {"fc.weight", "fc.bias"});
  const auto bias = own.view("fc.bias"), sum = global_.view("local.bias") + global_.view("aux.bias");
  for (const int64_t j : {0, 2}) EXPECT_EQ(bias[j].item<float>(), sum[j].item<float>());
  Network network(global_.model);
  network.load(own);
  const auto answers = network.forward(normal({200, 16, 1, 1}, 9) * 20).logits.front().argmax(1);
  EXPECT_TRUE(((answers == 0) | (answers == 2)).all().item<bool>());
}

}  // namespace fedgrab::head_rules_test
