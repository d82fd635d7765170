/// The classifier head: kind, initial weights, and what is frozen.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "fedgrab/core/random.h"
#include "fedgrab/model/network.h"
#include "method/head/sparse_etf.h"
#include "tests/method/tiny.h"
#include "tests/tensors.h"

namespace fedgrab::head_test {

constexpr uint64_t seed = 5;

// ---- kind and scale

Head head_of(const Values& settings) {
  return compose("fedavg", settings).model(tiny_architecture(4), 3)->heads.front();
}

TEST(HeadKind, IsWhatTheLossAsksForOrTheUser) {
  EXPECT_EQ(head_of({}).kind, HeadKind::linear);
  EXPECT_TRUE(head_of({}).bias);
  EXPECT_EQ(head_of({}).scale, 1);
  const Head of_loss = head_of({{"objective.name", "ldam"}});
  EXPECT_EQ(of_loss.kind, HeadKind::cosine);
  EXPECT_FALSE(of_loss.bias);
  EXPECT_EQ(of_loss.scale, 30);
  const Head asked = head_of({{"head.kind", "cosine"}});
  EXPECT_EQ(asked.kind, HeadKind::cosine);
  EXPECT_FALSE(asked.bias);
  EXPECT_EQ(asked.scale, 10);
  EXPECT_EQ(head_of({{"objective.name", "ldam"}, {"head.kind", "cosine"}}).scale, 30);  // the loss knows better
}

TEST(HeadKind, TakesTheScaleAskedFor) {
  for (const char* loss : {"softmax", "ldam"})
    EXPECT_EQ(head_of({{"objective.name", loss}, {"head.scale", "7"}}).scale, 7) << loss;
}

// ---- FedETF

TEST(FedEtf, HeadIsASimplexThatNobodyMoves) {
  TinyFederation f(compose("fedetf"), 6, 4);
  const auto rows = f.global.view("fc.weight").clone();
  // cos = −1/(M − 1) between every two, norm 1
  expect_near(rows.matmul(rows.t()), torch::eye(4) * (4.0 / 3) - 1.0 / 3, 1e-5);
  EXPECT_EQ(f.model->find("fc.weight").role, Role::frozen);
  EXPECT_FALSE(f.model->heads.front().bias);
  State changed = f.global.clone();
  changed.flat.add_(1);  // a client that changes everything
  f.round(1, [&](const auto&, const auto&, State& local) { local.flat.copy_(changed.flat); });
  EXPECT_TRUE(torch::equal(f.global.view("fc.weight"), rows));
  for (const auto* name : {"fc.projection.weight", "fc.projection.bias", "fc.temperature", "bn1.weight"})
    EXPECT_TRUE(torch::equal(f.global.view(name), changed.view(name))) << name;
}

TEST(FedEtf, LogitsAreScaledCosinesOfTheProjectionAndTheSimplexTakesNoGradient) {
  const TinyFederation f(compose("fedetf", {{"head.scale", "7"}}), 6, 4);
  const State& global = f.global;
  EXPECT_EQ(global.view("fc.temperature").item<float>(), 1);
  global.view("fc.temperature").fill_(1.5);
  Network network(global.model);
  network.load(global);
  const auto images = normal_numbers({5, 6, 1, 1}, 1);
  const auto output = network.forward_training(images);
  auto z = at::linear(output.features, global.view("fc.projection.weight"), global.view("fc.projection.bias"));
  z = z / z.norm(2, {1}, true);
  expect_near(output.logits[0].detach(), z.matmul(global.view("fc.weight").t()).detach() * (7 * 1.5), 1e-4);
  network.backward(output, {normal_numbers({5, 4}, 2)});
  const State gradient{global.model, network.gradient()};
  EXPECT_TRUE((gradient.view("fc.weight") == 0).all().item<bool>());
  for (const auto* name : {"fc.projection.weight", "fc.projection.bias", "fc.temperature", "bn1.weight"})
    EXPECT_TRUE((gradient.view(name) != 0).any().item<bool>()) << name;
}

TEST(FedEtf, TrainsByBalancedSoftmaxOfTheClientsOwnCounts) {
  TinyFederation f(compose("fedetf"), 6, 4);
  const auto problem = f.configure();
  EXPECT_FALSE(problem.class_sizes.defined());  // the engine gives the client's own
  const LogitBatch batch{.logits = torch::zeros({1, 4}),
                         .labels = torch::tensor({0}, torch::kLong),
                         .counts = torch::tensor({6.0F, 3.0F, 1.0F, 0.0F})};
  TensorMap state;
  const auto gradient = (*problem.heads.front().objective)(batch, state).gradient;
  // Shares of 6, 3, 1 and, for the class it lacks, 1.
  expect_near(gradient, torch::tensor({{6.0 / 11 - 1, 3.0 / 11, 1.0 / 11, 1.0 / 11}}), 1e-6);
}

// ---- the sparse simplex of FedLoGe

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
      expect_near(norms(rows) / length, torch::ones({10}), 1e-5);
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

TEST(SparseEtf, TakesNormAndSparsityAskedFor) {
  const TinyFederation f(compose("fedloge", {{"head.norm", "3"}, {"head.sparsity", "0.3"}, {"head.steps", "0"}}), 400,
                         10);
  const auto rows = f.global.view("fc.weight");
  expect_near(norms(rows), torch::full({10}, 3.0), 1e-4);
  EXPECT_NEAR((rows == 0).to(torch::kFloat).mean().item<double>(), 0.3, 0.03);
}

}  // namespace fedgrab::head_test
