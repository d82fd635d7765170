#include "cohort.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "fedgrab/core/error.h"

namespace fedgrab {

std::vector<size_t> by_size(const std::vector<int64_t>& clients, const Partition& partition) {
  std::vector<size_t> order(clients.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return partition[static_cast<size_t>(clients[a])].size() > partition[static_cast<size_t>(clients[b])].size();
  });
  return order;
}

ClientContext context_of(const RoundContext& round, int64_t client, std::span<const int64_t> counts, TensorMap& state) {
  const auto place = std::lower_bound(round.cohort.begin(), round.cohort.end(), client) - round.cohort.begin();
  return {round, client, round.weights.at(static_cast<size_t>(place)), counts, state};
}

std::vector<int64_t> sample_order(const Federation& federation, const ClientContext& client, int64_t epoch) {
  const auto& own = federation.partition[static_cast<size_t>(client.client)];
  const auto random_for = [&](Purpose purpose) {
    return Random(client.round.seed, purpose, static_cast<uint32_t>(client.client),
                  static_cast<uint32_t>(client.round.round), static_cast<uint32_t>(epoch));
  };
  auto order = permutation(static_cast<int64_t>(own.size()), random_for(Purpose::shuffle));
  if (federation.train.sampling == Sampling::shuffled) return order;
  // Class-balanced: a class of the client's at random, then its next image, in the order of the permutation and round
  // again.
  std::vector<std::vector<int64_t>> by_class(client.counts.size());
  for (const int64_t i : order)
    by_class[static_cast<size_t>(federation.data.train.labels[static_cast<size_t>(own[static_cast<size_t>(i)])])]
        .push_back(i);
  std::erase_if(by_class, [](const auto& members) { return members.empty(); });
  std::vector<size_t> next(by_class.size());
  Random chance = random_for(Purpose::sampling);
  for (auto& i : order) {
    const auto c = static_cast<size_t>(chance.below(by_class.size()));
    i = by_class[c][next[c]++ % by_class[c].size()];
  }
  return order;
}

void send_update(const Federation& federation, const RoundTask& task, const ClientContext& client, const State& local,
                 ClientReport& report, Sums& sums) {
  const int64_t round = task.round.round;
  const LocalResult result{local, report.steps, learning_rate(federation.train, round), federation.train.momentum};
  const auto weight_of = [&](Weighting weighting) {
    if (weighting == Weighting::none) return 1.0;
    return weighting == Weighting::server_weights ? client.weight : 1.0 / static_cast<double>(task.round.population);
  };
  for (const auto& payload : task.method.after_training(client, result)) {
    try {
      sums.add(payload.name, payload.values, weight_of(payload.weighting));
    } catch (const Error&) {  // no loss shows what the last step broke: it is detected here
      throw Error(Fault::other, "training",
                  fmt::format("the weights are not finite after round {}, client {}, step {}", round, client.client,
                              report.steps),
                  "lower train.lr or set train.clip");
    }
    report.bytes_up += payload.bytes;
  }
  report.bytes_down = task.method.bytes_down(*federation.model);
  report.diagnostics = task.method.diagnose(client);
}

std::vector<double> class_accuracy(std::span<const int32_t> answers, std::span<const int32_t> labels, int64_t classes) {
  std::vector<double> right(static_cast<size_t>(classes)), all(right.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<size_t>(labels[i]);
    all[label] += 1;
    right[label] += answers[i] == labels[i] ? 1 : 0;
  }
  for (size_t c = 0; c < right.size(); ++c) right[c] = all[c] > 0 ? right[c] / all[c] : 0;
  return right;
}

void throw_bad_loss(double loss, const ClientContext& client, int64_t step) {
  throw Error(
      Fault::other, "training",
      fmt::format("the loss is {} in round {}, client {}, step {}", loss, client.round.round, client.client, step),
      "lower train.lr or set train.clip");
}

}  // namespace fedgrab
