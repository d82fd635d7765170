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
