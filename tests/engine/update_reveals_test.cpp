/// What a server learns about one client from one update that it sees alone: the class shares, by the estimator of
/// prior.source=bias-probe on the bias of the classifier. docs/privacy.md cites the figures.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <numeric>

#include "fedgrab/data/load.h"
#include "fedgrab/engine/engine.h"
#include "tests/engine/compose.h"

namespace fedgrab::update_reveals_test {

using Numbers = std::vector<double>;

Numbers shares_of(const std::vector<int64_t>& counts) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  Numbers shares;
  for (const int64_t count : counts) shares.push_back(static_cast<double>(count) / total);
  return shares;
}

double distance(const Numbers& a, const Numbers& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

double correlation(const Numbers& a, const Numbers& b) {
  const auto mean = [](const Numbers& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - mean(a), y = b[i] - mean(b);
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

/// 1/M + Δb/S, cut at 0, as shares: a softmax bias moves by the step times label share minus mean probability.
Numbers estimate(const State& before, const torch::Tensor& after, double reach) {
  const auto& bias = before.model->find("fc.bias");
  const auto moved = after.narrow(0, bias.offset, bias.size) - before.view(bias);
  const auto raw = (moved / reach + 1.0 / static_cast<double>(bias.size)).clamp_min(0);
  return to_vector(raw / raw.sum());
}

/// Mean over the clients of a federation.
struct Guess {
  double error = 0, even_error = 0, likeness = 0;
};

/// Of ten clients, each of which sends its update to the server alone, in round 1.
Guess guess_shares(const TrainParams& train) {
  const Dataset data = make_shapes(100, 1, 1);
  std::vector<int64_t> samples(data.train.labels.size());
  std::iota(samples.begin(), samples.end(), int64_t{0});
  const int64_t clients = 10;
  PartitionParams split;
  split.clients = clients;
  split.alpha = 0.3;
  const auto partition = make_partition(split, samples, data.train.labels, data.classes(), 1);
  Composition method(config_of("fedavg"));
  const auto model = method.model(make_architecture("cnn", data.shape()), data.classes());
  const Federation federation{data, partition, model, train};
  const auto engine = make_engine({.device = Device::cpu, .workers = 1}, federation);
  const State global = initial_state(model, 1);
  const Numbers even(static_cast<size_t>(data.classes()), 1.0 / static_cast<double>(data.classes()));

  Guess guess;
  for (int64_t client = 0; client < clients; ++client) {
    const TensorMap server;
    const auto context = method.begin_round(1, 1, {client}, sizes_of(partition, {client}), clients, global, server);
    Sums sums;
    ClientStore store;
    const std::vector<int64_t> alone{client};
    const auto report = engine->train({.round = context, .method = method, .clients = alone}, sums, store).front();
    const double reach = learning_rate(train, 1) * effective_steps(report.steps, train.momentum);
    const auto found = estimate(global, sums["state"], reach);
    const auto truth =
        shares_of(class_counts(data.train.labels, partition[static_cast<size_t>(client)], data.classes()));
    guess.error += distance(found, truth) / clients;
    guess.even_error += distance(even, truth) / clients;
    guess.likeness += correlation(found, truth) / clients;
  }
  std::cout << "L2 " << guess.error << ", of even shares " << guess.even_error << ", correlation " << guess.likeness
            << "\n";
  return guess;
}

TEST(AnUpdate, RevealsTheClassSharesOfItsClient) {
  const auto guess = guess_shares({});
  EXPECT_LT(guess.error, guess.even_error);
  EXPECT_GT(guess.likeness, 0.8);
}

/// The server says how long a client trains.
TEST(AnUpdate, OfASingleStepRevealsThemClosely) {
  TrainParams train;
  train.local_epochs = 1;
  train.batch = 1000;
  const auto guess = guess_shares(train);
  EXPECT_LT(guess.error, guess.even_error / 4);
  EXPECT_GT(guess.likeness, 0.98);
}

}  // namespace fedgrab::update_reveals_test
