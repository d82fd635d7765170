/// Classifiers of the deployed model: τ-norm, logit adjustment, CReFF, FedLoGe.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fedgrab/core/random.h"
#include "fedgrab/model/network.h"
#include "fedgrab/prior/prior.h"
#include "method/head/sparse_etf.h"
#include "method/posthoc/creff.h"
#include "tests/data/scratch_folder.h"
#include "tests/method/tiny.h"
#include "tests/tensors.h"

namespace fedgrab::posthoc_test {

constexpr uint64_t seed = 5;

/// Everything but the parameters named must be the same to the bit.
void expect_same_but(const State& a, const State& b, const std::vector<std::string>& names) {
  for (const auto& p : a.model->parameters) {
    const bool named = std::find(names.begin(), names.end(), p.name) != names.end();
    EXPECT_TRUE(named || torch::equal(a.view(p), b.view(p))) << p.name;
  }
}

// ---- τ-norm

/// Four features, three classes.
class TauNorm : public testing::Test {
 protected:
  static TinyFederation federation(const Values& settings) { return {compose("tau-norm", settings), 4, 3}; }
  static State deployed(const TinyFederation& f) { return f.method.deploy(f.global, no_tensors); }
};

TEST_F(TauNorm, ZeroChangesNothingToTheBit) {
  const auto f = federation({{"posthoc.tau-norm.tau", "0"}});
  EXPECT_TRUE(torch::equal(deployed(f).flat, f.global.flat));
  EXPECT_NE(deployed(f).flat.data_ptr(), f.global.flat.data_ptr());  // training goes on from the one it has
}

TEST_F(TauNorm, OneGivesNormsOfOneAndKeepsTheDirections) {
  const auto f = federation({{"posthoc.tau-norm.tau", "1"}});
  const auto before = f.global.flat.clone();
  const State changed = deployed(f);
  const auto rows = f.global.view("fc.weight");
  expect_near(norms(changed.view("fc.weight")), torch::ones({3}), 1e-6);
  expect_near(changed.view("fc.weight"), rows / norms(rows).unsqueeze(1), 1e-6);
  expect_same_but(changed, f.global, {"fc.weight"});  // the bias is kept
  EXPECT_TRUE(torch::equal(f.global.flat, before));
}

TEST_F(TauNorm, BetweenTheyShrinkByAPowerOfTheirNorm) {
  const TinyFederation f(compose("tau-norm", {{"posthoc.tau-norm.tau", "0.5"}}), 2, 2);
  f.global.view("fc.weight").copy_(torch::tensor({{0.0F, 4.0F}, {0.6F, 0.8F}}));
  expect_near(deployed(f).view("fc.weight"), torch::tensor({{0.0F, 2.0F}, {0.6F, 0.8F}}));
}

TEST_F(TauNorm, DropsTheBiasWhereAsked) {
  for (const char* tau : {"0", "1"}) {
    const auto f = federation({{"posthoc.tau-norm.tau", tau}, {"posthoc.tau-norm.drop_bias", "true"}});
    EXPECT_TRUE((deployed(f).view("fc.bias") == 0).all().item<bool>());
  }
}

TEST_F(TauNorm, ARowOfZerosStaysOne) {
  const auto f = federation({});
  f.global.view("fc.weight")[1].zero_();
  const auto rows = deployed(f).view("fc.weight");
  EXPECT_TRUE(rows.isfinite().all().item<bool>());
  EXPECT_TRUE((rows[1] == 0).all().item<bool>());
}

TEST_F(TauNorm, TakesTheMovingAverageWhereThereIsOne) {
  TinyFederation f(compose("tau-norm", {{"server.ema", "0.9"}}), 4, 3);
  for (int64_t round = 1; round <= 3; ++round)
    f.round(round, [](const auto&, const auto&, State& local) { add_to_trained(local, 1); });
  const auto mean = f.server.at("ema");
  const State averaged{f.model, mean};
  const auto rows = averaged.view("fc.weight");
  const State changed = f.method.deploy(f.global, f.server);
  expect_near(changed.view("fc.weight"), rows / norms(rows).unsqueeze(1), 1e-6);
  EXPECT_TRUE(torch::equal(changed.view("fc.bias"), averaged.view("fc.bias")));
}

// ---- temperature

/// Logits of 6 images by a model.
torch::Tensor logits_of(const State& state) {
  Network network(state.model);
  network.load(state);
  return network.forward(normal_numbers({6, state.model->architecture.features, 1, 1}, 1)).logits.front();
}

TEST(Temperature, DividesTheLogitsOfEveryHead) {
  const Values on{{"posthoc.temperature", "true"}};
  for (const char* preset : {"fedavg", "tau-norm", "ldam", "fedetf"}) {
    TinyFederation f(compose(preset, on), 4, 3);
    const auto before = logits_of(f.method.deploy(f.global, f.server));
    f.server["posthoc.temperature"] = torch::tensor(2.5, torch::kDouble);
    expect_near(logits_of(f.method.deploy(f.global, f.server)), before / 2.5, 1e-5);
    EXPECT_EQ(f.method.posthoc_numbers(f.server).at("temperature").front(), 2.5) << preset;
  }
}

TEST(Temperature, IsFittedToTheClassifierThatIsDeployed) {
  TinyFederation f(compose("tau-norm", {{"posthoc.temperature", "true"}}), 4, 3);
  const auto logits = logits_of(f.method.uncalibrated(f.global, f.server));
  const auto labels = torch::tensor(std::vector<int64_t>{0, 1, 2, 0, 1, 2});
  f.method.fit_temperature({logits, labels}, f.server);
  const auto loss = [&](double t) {
    return torch::cross_entropy_loss(logits / t, labels, {}, at::Reduction::Mean, -100, 1.0 / 7).item<double>();
  };
  const double fitted = f.method.posthoc_numbers(f.server).at("temperature").front();
  for (const double factor : {0.9, 1.1}) EXPECT_LE(loss(fitted), loss(fitted * factor) + 1e-6);
}

// ---- logit adjustment

/// Logits of both models for the same images.
struct Logits {
  torch::Tensor before, after;
};
Logits logits_of(const TinyFederation& f) {
  const auto images = normal_numbers({5, f.model->architecture.features, 1, 1}, 1);
  const auto answer = [&](const State& state) {
    Network network(state.model);
    network.load(state);
    return network.forward(images).logits.front();
  };
  return {answer(f.global), answer(f.method.deploy(f.global, f.server))};
}

TEST(LogitAdjustment, SubtractsTauLogPriorFromTheLogits) {
  const std::vector<Values> heads{{},
                                  {{"head.scale", "4"}},
                                  {{"head.projected", "true"}},
                                  {{"head.kind", "cosine"}},
                                  {{"head.projected", "true"}, {"head.scale", "3"}, {"head.frozen", "true"}}};
  for (const double tau : {1.0, 0.4})
    for (auto settings : heads) {
      settings.emplace_back("posthoc.logit-adjustment.tau", std::to_string(tau));
      const TinyFederation f(compose("dpa-shift", settings), 4, 3);
      f.global.view("fc.weight")
          .copy_(torch::tensor(
              {{0.0F, 4.0F, 0.0F, 0.0F}, {0.6F, 0.8F, 0.0F, 0.0F}, {2.0F, 0.0F, 0.0F, 0.0F}}));  // norms 4, 1, 2
      if (f.model->heads.front().projected) f.global.view("fc.temperature").fill_(1.5);
      const auto before = f.global.flat.clone();
      const auto [plain, adjusted] = logits_of(f);
      const auto expected = plain - tau * torch::tensor({4.0 / 7, 1.0 / 7, 2.0 / 7}).log();
      expect_near(adjusted, expected, 1e-5);
      expect_same_but(f.method.deploy(f.global, f.server), f.global, {"fc.bias"});
      EXPECT_TRUE(torch::equal(f.global.flat, before));  // training goes on without it
    }
}

TEST(LogitAdjustment, OfZeroStrengthOrAUniformPriorOrdersClassesAsBefore) {
  const TinyFederation none(compose("dpa-shift", {{"posthoc.logit-adjustment.tau", "0"}}), 4, 3);
  EXPECT_TRUE(torch::equal(none.method.deploy(none.global, no_tensors).flat, none.global.flat));
  const TinyFederation even(compose("dpa-shift"), 4, 3);
  even.global.view("fc.weight").copy_(torch::eye(3, 4));
  const auto [plain, adjusted] = logits_of(even);
  expect_near(adjusted - plain, torch::full({5, 3}, std::log(3.0)), 1e-5);
}

TEST(LogitAdjustment, TakesAnyPriorUnscaled) {
  TinyFederation counted(compose("fedavg", {{"posthoc.kind", "logit-adjustment"}, {"prior.source", "counts"}}), 4, 3);
  counted.method.learn_counts(std::vector<int64_t>{60, 30, 10});
  const auto by_counts = logits_of(counted);
  expect_near(by_counts.before - by_counts.after, torch::tensor({0.6F, 0.3F, 0.1F}).log().expand({5, 3}), 1e-5);
  const TinyFederation fixed(
      compose("fedavg", {{"posthoc.kind", "logit-adjustment"}, {"prior.source", "fixed"}, {"prior.fixed", "1,0.25,0"}}),
      4, 3);
  const auto by_hand = logits_of(fixed);  // a class that is said to be absent gets a finite share
  expect_near(by_hand.before - by_hand.after, torch::tensor({0.8F, 0.2F, 1e-6F}).log().expand({5, 3}), 1e-4);
}

TEST(LogitAdjustment, WaitsForAPriorThatIsNotThereYet) {
  TinyFederation f(compose("fedavg", {{"posthoc.kind", "logit-adjustment"}, {"prior.source", "bias-probe"}}), 4, 3,
                   {{.counts = {6, 3, 1}}});
  EXPECT_TRUE(torch::equal(f.method.deploy(f.global, f.server).flat, f.global.flat));
  f.round(1, [](const auto&, const auto&, State&) {});
  const auto [plain, adjusted] = logits_of(f);
  expect_near(plain - adjusted, torch::tensor({0.6F, 0.3F, 0.1F}).log().expand({5, 3}), 0.01);
}

// ---- CReFF: class gradients and matching

TEST(CreffGradients, AreAutogradsOfTheMeanCrossEntropy) {
  const int64_t classes = 4, width = 5, each = 3;
  const auto w = normal_numbers({classes, width}, 1, torch::kDouble).requires_grad_();
  const auto b = normal_numbers({classes}, 2, torch::kDouble).requires_grad_();
  const auto features = normal_numbers({classes, each, width}, 3, torch::kDouble);
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
  const Classifier head{normal_numbers({3, 5}, 1), normal_numbers({3}, 2)};
  const auto features = normal_numbers({6, 5}, 3);
  const auto labels = torch::tensor({2, 0, 2, 0, 0, 2}, torch::kLong);
  const auto got = class_gradients(head, features, labels);
  for (const int64_t c : {0, 2}) {
    const auto own = features.index_select(0, (labels == c).nonzero().squeeze(1));
    expect_near(got[c], class_gradients(head, own.unsqueeze(0).expand({3, 3, 5}))[c], 1e-6);
  }
  EXPECT_TRUE((got[1] == 0).all().item<bool>());
}

TEST(CreffMatching, LossIsZeroForTheSameDirectionsAndAddsRowsAndBias) {
  const auto real = normal_numbers({3, 3, 5}, 1, torch::kDouble);
  const auto all = torch::ones({3}, torch::kBool);
  EXPECT_NEAR(matching_loss(real, real * 7, all).item<double>(), 0, 1e-4);
  // Against its opposite each of the three rows and the bias, as one, is 2 away; for the classes marked alone.
  EXPECT_NEAR(matching_loss(real, -real, all).item<double>(), 3 * (3 + 1) * 2, 1e-4);
  EXPECT_NEAR(matching_loss(real, -real, torch::tensor({true, false, true})).item<double>(), 2 * (3 + 1) * 2, 1e-4);
}

TEST(CreffMatching, StepsDownTheSlopeOfTheLoss) {
  // Against differences in double: the step's second derivatives are the part that is easy to get wrong.
  const Classifier head{normal_numbers({2, 3}, 1, torch::kDouble), normal_numbers({2}, 2, torch::kDouble)};
  const auto real = class_gradients(head, normal_numbers({2, 4, 3}, 3, torch::kDouble));
  const auto all = torch::ones({2}, torch::kBool);
  const auto start = normal_numbers({2, 2, 3}, 4, torch::kDouble);
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
  torch::Tensor centres = normal_numbers({classes, width}, 10) * 0.9;
  torch::Tensor train, train_labels, test, test_labels;

  Clouds() {
    const auto draw = [&](const std::vector<int64_t>& sizes, uint32_t stream) {
      std::vector<int64_t> labels;
      for (size_t c = 0; c < sizes.size(); ++c) labels.insert(labels.end(), static_cast<size_t>(sizes[c]), c);
      const auto at = torch::tensor(labels, torch::kLong);
      return std::pair{centres.index_select(0, at) + normal_numbers({at.numel(), width}, stream), at};
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
  auto features = normal_numbers({Clouds::classes, 20, Clouds::width}, 20);
  const double first = match_features(features, head, real, all, 100, 0.1);
  const double last = matching_loss(real, class_gradients(head, features), all).item<double>();
  EXPECT_LT(last, 0.5 * first);
}

TEST(CreffToy, UnmarkedClassesKeepTheirFeatures) {
  const Clouds clouds;
  const auto head = clouds.trained();
  const auto real = class_gradients(head, clouds.train, clouds.train_labels);
  const auto start = normal_numbers({Clouds::classes, 20, Clouds::width}, 20);
  auto features = start.clone();
  match_features(features, head, real, torch::tensor({true, true, true, true, false}), 5, 0.1);
  EXPECT_TRUE(torch::equal(features[4], start[4]));
  EXPECT_FALSE(torch::equal(features[3], start[3]));
}

TEST(CreffToy, TheHeadTrainedOnMatchedFeaturesIsBetterOnTheTail) {
  const Clouds clouds;
  const auto biased = clouds.trained();
  auto features = normal_numbers({Clouds::classes, 50, Clouds::width}, 20);
  Classifier head{normal_numbers({Clouds::classes, Clouds::width}, 21) * 0.1, torch::zeros({Clouds::classes})};
  const auto all = torch::ones({Clouds::classes}, torch::kBool);
  for (uint32_t round = 1; round <= 10; ++round) {
    match_features(features, head, class_gradients(head, clouds.train, clouds.train_labels), all, 100, 0.1);
    head = {normal_numbers({Clouds::classes, Clouds::width}, 30 + round) * 0.1, torch::zeros({Clouds::classes})};
    retrain(head, features, 100, 32, 0.01, seed, round);
  }
  EXPECT_GT(clouds.tail_accuracy(head), clouds.tail_accuracy(biased) + 0.1);
}

TEST(CreffToy, RetrainingIsSgdOnTheCrossEntropyAndFollowsFromItsSeed) {
  const auto features = normal_numbers({3, 4, 5}, 1);
  const Classifier start{normal_numbers({3, 5}, 2), normal_numbers({3}, 3)};
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
  struct Images {
    std::vector<int64_t> labels;
    torch::Tensor features;
  };
  /// A client that has one image of each label.
  void add(const std::vector<int64_t>& labels, uint32_t stream) {
    TinyClient client{.samples = static_cast<int64_t>(labels.size()), .counts = {0, 0, 0}};
    for (const int64_t label : labels) ++client.counts[static_cast<size_t>(label)];
    images_.push_back({labels, normal_numbers({client.samples, 4}, stream)});
    f_.clients.push_back(client);
  }
  torch::Tensor gradients_of(const Classifier& head, size_t k) const {
    return class_gradients(head, images_[k].features, torch::tensor(images_[k].labels, torch::kLong));
  }
  /// What the clients send.
  void round(int64_t index, Sums& sums) {
    const auto context = f_.begin(index);
    for (size_t k = 0; k < images_.size(); ++k) {
      const auto client = f_.client(context, k);
      State local = f_.global.clone();
      const LabelledFeatures own{images_[k].features, torch::tensor(images_[k].labels, torch::kLong)};
      f_.method.before_training(client, local, &own);
      EXPECT_TRUE(torch::equal(local.flat, f_.global.flat));
      f_.send(client, {f_.global, 1, 0.1, 0}, sums);
    }
  }
  void train(int64_t index) {
    Sums sums;
    round(index, sums);
    f_.global = f_.method.aggregate(f_.begin(index), sums, f_.server);
  }
  Classifier set_classifier() {
    f_.server = {{"creff.weight", normal_numbers({3, 4}, 1)}, {"creff.bias", normal_numbers({3}, 2)}};
    return {f_.server["creff.weight"], f_.server["creff.bias"]};
  }

  TinyFederation f_{compose("creff", {{"posthoc.creff.features", "6"},
                                      {"posthoc.creff.match_steps", "5"},
                                      {"posthoc.creff.retrain_epochs", "4"}}),
                    4,
                    3,
                    {}};
  std::vector<Images> images_;
};

TEST_F(Creff, AsksForTheFeaturesOfTheClientsImages) {
  EXPECT_TRUE(f_.method.needs().features);
  for (const int64_t round : {1, 2}) EXPECT_FALSE(f_.method.own_start(round));
}

TEST_F(Creff, ClientsSendGradientsOfTheHeadTheServerHolds) {
  const auto head = set_classifier();
  add({0, 0, 1}, 3);
  Sums sums;
  round(2, sums);
  expect_near(sums["creff.gradients"].view({3, 3, 5}), gradients_of(head, 0), 1e-6);
  expect_near(sums["creff.present"], torch::tensor({1.0F, 1.0F, 0.0F}));
  EXPECT_TRUE(f_.clients[0].state.empty());  // nothing is kept for the next round
  const int64_t model = shared_bytes(*f_.model);
  EXPECT_GE(f_.bytes_up, model + 2 * 3 * 5 * 4);  // two classes of three
  EXPECT_LT(f_.bytes_up, model + 2 * 3 * 5 * 4 + 4);
  EXPECT_EQ(f_.method.bytes_down(*f_.model), model + 3 * 5 * 4);
}

TEST_F(Creff, MatchesThePlainMeanOverTheClientsThatHaveTheClass) {
  // Class 0: both clients, one with three times the samples; class 1: one of them; class 2: nobody.
  add({0, 0, 0, 1}, 3);
  add({0}, 4);
  const auto start = normal_numbers({3, 6, 4}, 5);
  const auto head = set_classifier();
  f_.server["creff.features"] = start.clone();
  auto real = gradients_of(head, 0) + gradients_of(head, 1);
  real[0] /= 2;
  train(1);
  auto expected = start.clone();
  match_features(expected, head, real, torch::tensor({true, true, false}), 5, 0.1);
  expect_near(f_.server["creff.features"], expected, 1e-5);
  EXPECT_TRUE(torch::equal(f_.server["creff.features"][2], start[2]));
}

TEST_F(Creff, DeploysTheRetrainedHeadAndTrainsWithTheOther) {
  const State before = f_.global.clone();
  EXPECT_TRUE(torch::equal(f_.method.deploy(f_.global, f_.server).flat, before.flat));  // before round 1 there is none
  add({0, 1, 2}, 3);
  add({0, 0}, 4);
  train(1);
  EXPECT_TRUE(torch::equal(f_.global.view("fc.weight"), before.view("fc.weight")));  // the average of what was sent
  const State deployed = f_.method.deploy(f_.global, f_.server);
  EXPECT_TRUE(torch::equal(deployed.view("fc.weight"), f_.server.at("creff.weight")));
  EXPECT_TRUE(torch::equal(deployed.view("fc.bias"), f_.server.at("creff.bias")));
  EXPECT_FALSE(torch::equal(deployed.view("fc.weight"), f_.global.view("fc.weight")));
  expect_same_but(deployed, f_.global, {"fc.weight", "fc.bias"});
}

TEST_F(Creff, KeepsItsFeaturesFromRoundToRound) {
  add({0, 1, 2}, 3);
  train(1);
  const auto first = f_.server.at("creff.features").clone();
  ASSERT_EQ(first.sizes(), at::IntArrayRef({3, 6, 4}));
  train(2);
  const double step = (f_.server.at("creff.features") - first).abs().mean().item<double>();
  EXPECT_GT(step, 0);
  EXPECT_LT(step, 0.3);  // new noise would be about one away
}

// ---- FedLoGe

class FedLoge : public testing::Test {
 protected:
  TinyFederation f_{compose("fedloge", {{"head.steps", "50"}}), 16, 4, {{}, {}}};
  State& global_ = f_.global;
};

TEST_F(FedLoge, HasAFixedHeadForTheBackboneAndTwoOnDetachedFeatures) {
  const auto& heads = f_.model->heads;
  ASSERT_EQ(heads.size(), 3U);
  EXPECT_EQ(heads[0].role, Role::frozen);
  EXPECT_FALSE(heads[0].detached);
  EXPECT_EQ(heads[1].name, "aux");
  EXPECT_EQ(heads[1].role, Role::shared);
  EXPECT_EQ(heads[2].name, "local");
  EXPECT_EQ(heads[2].role, Role::personal);
  EXPECT_TRUE(heads[1].detached && heads[2].detached);
  const auto problem = f_.configure();
  ASSERT_EQ(problem.heads.size(), 3U);  // one each, or the engine would leave one untrained
  for (const auto& head : problem.heads) EXPECT_NE(head.objective, nullptr);
  auto expected = torch::empty({4, 16});
  make_sparse_etf(expected, 0.6, 1, 50, TinyFederation::seed);
  EXPECT_TRUE(torch::equal(global_.view("fc.weight"), expected));
}

TEST_F(FedLoge, LocalHeadsStayWithTheirClientsAndComeBackToThem) {
  const State before = global_.clone();
  std::vector<State> locals, next;
  f_.round(1, [&](const ClientContext& client, const LocalProblem&, State& local) {
    expect_same_but(local, before, {"local.weight", "local.bias"});  // which every client draws for itself
    EXPECT_FALSE(torch::equal(local.view("local.weight"), before.view("local.weight")));
    local.flat.add_(static_cast<double>(client.client) + 1);
    locals.push_back(local.clone());
  });
  for (const auto* name : {"fc.weight", "fc.bias", "local.weight", "local.bias"})
    EXPECT_TRUE(torch::equal(global_.view(name), before.view(name))) << name;
  expect_near(global_.view("aux.weight"), before.view("aux.weight") + 1.5);
  const State after = global_.clone();
  f_.round(2, [&](const ClientContext& client, const LocalProblem&, State& local) {
    for (const auto* name : {"local.weight", "local.bias"})
      EXPECT_TRUE(torch::equal(local.view(name), locals[static_cast<size_t>(client.client)].view(name))) << name;
    expect_same_but(local, after, {"local.weight", "local.bias"});
    next.push_back(local.clone());
  });
  EXPECT_FALSE(torch::equal(next[0].view("local.weight"), next[1].view("local.weight")));
  for (const int64_t round : {1, 2}) EXPECT_TRUE(f_.method.own_start(round));
}

TEST_F(FedLoge, KeepsACopyOfTheLocalHead) {
  const auto context = f_.begin();
  const auto client = f_.client(context);
  State local = global_.clone();
  Sums sums;
  f_.send(client, {local, 1, 0.1, 0}, sums);
  const auto kept = local.view("local.weight").clone();
  local.flat.zero_();  // the engine trains the next client in the same place
  EXPECT_TRUE(torch::equal(client.state.at("fedloge.weight"), kept));
}

TEST_F(FedLoge, DeploysTheAuxiliaryHeadWithRowsOfOneNorm) {
  const State deployed = f_.method.deploy(global_, f_.server);
  const auto rows = deployed.view("fc.weight"), aux = global_.view("aux.weight");
  expect_near(norms(rows), torch::full({4}, 1.7), 1e-5);
  expect_near(rows / 1.7, aux / norms(aux).unsqueeze(1), 1e-5);
  EXPECT_TRUE(torch::equal(deployed.view("fc.bias"), global_.view("aux.bias")));
  expect_same_but(deployed, global_, {"fc.weight", "fc.bias"});
  const auto other = compose("fedloge", {{"posthoc.aligned.norm", "3"}});
  expect_near(norms(other.deploy(global_, f_.server).view("fc.weight")), torch::full({4}, 3.0), 1e-5);
}

TEST_F(FedLoge, PersonalisedAddsBothHeadsAndMasksTheClassesTheClientLacks) {
  f_.clients[0].counts = {5, 0, 2, 0};
  const auto context = f_.begin();
  const State own = f_.method.personalise(f_.client(context), global_);
  const auto local = global_.view("local.weight"), aux = global_.view("aux.weight");
  // LA-L: each of the auxiliary head's rows by the norm of the local one.
  expect_near(own.view("fc.weight"), local + aux * norms(local).unsqueeze(1), 1e-5);
  expect_same_but(own, global_, {"fc.weight", "fc.bias"});
  const auto bias = own.view("fc.bias"), sum = global_.view("local.bias") + global_.view("aux.bias");
  for (const int64_t j : {0, 2}) EXPECT_EQ(bias[j].item<float>(), sum[j].item<float>());
  Network network(global_.model);
  network.load(own);
  const auto answers = network.forward(normal_numbers({200, 16, 1, 1}, 9) * 20).logits.front().argmax(1);
  EXPECT_TRUE(((answers == 0) | (answers == 2)).all().item<bool>());
}

}  // namespace fedgrab::posthoc_test
