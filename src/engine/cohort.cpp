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

int64_t total_samples(const std::vector<int64_t>& clients, const Partition& partition) {
  return std::accumulate(clients.begin(), clients.end(), int64_t{0}, [&](int64_t sum, int64_t client) {
    return sum + static_cast<int64_t>(partition[static_cast<size_t>(client)].size());
  });
}

ClientView view_of(const Federation& federation, const RoundTask& task, int64_t client, int64_t total,
                   std::span<const int64_t> counts, TensorMap& memory) {
  const auto samples = federation.partition[static_cast<size_t>(client)].size();
  return {.client = client,
          .round = task.round,
          .share = static_cast<double>(samples) / static_cast<double>(total),
          .seed = static_cast<uint64_t>(federation.train.seed),
          .global = task.global,
          .counts = counts,
          .memory = memory,
          .cohort = static_cast<int64_t>(task.everyone().size()),
          .population = static_cast<int64_t>(federation.partition.size()),
          .server = task.server};
}

std::vector<int64_t> sample_order(const Federation& federation, const ClientView& view, int64_t epoch) {
  const auto& own = federation.partition[static_cast<size_t>(view.client)];
  Random random(view.seed, Purpose::shuffle, static_cast<uint32_t>(view.client), static_cast<uint32_t>(view.round),
                static_cast<uint32_t>(epoch));
  auto order = permutation(static_cast<int64_t>(own.size()), random);
  if (federation.train.sampling == "shuffled") return order;
  // Class-balanced: a class of the client's at random, then its next image, in the order of the permutation and round
  // again.
  std::vector<std::vector<int64_t>> by_class(view.counts.size());
  for (const int64_t i : order)
    by_class[static_cast<size_t>(federation.data.train.labels[static_cast<size_t>(own[static_cast<size_t>(i)])])]
        .push_back(i);
  std::erase_if(by_class, [](const auto& members) { return members.empty(); });
  std::vector<size_t> next(by_class.size());
  Random chance(view.seed, Purpose::sampling, static_cast<uint32_t>(view.client), static_cast<uint32_t>(view.round),
                static_cast<uint32_t>(epoch));
  for (auto& i : order) {
    const auto c = static_cast<size_t>(chance.below(by_class.size()));
    i = by_class[c][next[c]++ % by_class[c].size()];
  }
  return order;
}

void contribute(const Federation& federation, const RoundTask& task, const ClientView& view, const State& local,
                ClientReport& report, Sums& sums) {
  const LocalResult result{local, report.steps, learning_rate(federation.train, task.round), federation.train.momentum};
  for (const auto& sent : task.method.contribute(view, result)) {
    try {
      sums.add(sent.name, sent.values, sent.weight);
    } catch (const Error&) {  // what the last step breaks shows in no loss: it is noticed here
      throw Error(Fault::other, "training",
                  fmt::format("the weights are not finite after round {}, client {}, step {}", view.round, view.client,
                              report.steps),
                  "lower train.lr or set train.clip");
    }
    report.bytes_up += sent.bytes;
  }
  report.bytes_down = task.method.bytes_down(*federation.model);
  report.diagnostics = task.method.diagnose(view);
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

void throw_bad_loss(double loss, const ClientView& view, int64_t step) {
  throw Error(Fault::other, "training",
              fmt::format("the loss is {} in round {}, client {}, step {}", loss, view.round, view.client, step),
              "lower train.lr or set train.clip");
}

}  // namespace fedgrab
