/// Several clients at once, one thread each. A thread never runs more than itself inside an operator, so the bits do
/// not depend on the number of workers; memory grows with workers, not with clients.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cohort.h"
#include "engines.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/data/batch.h"
#include "local_training.h"

namespace fedgrab {
namespace {

/// Every step frees and allocates the same tensors. By default the C library hands large ones back to the kernel each
/// time, and workers then wait for each other while pages are mapped: two workers gain a third of their speed from
/// this.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 16 << 20);
}

class CpuEngine : public Engine {
 public:
  CpuEngine(int workers, const Federation& federation) : federation_(federation), workers_(workers) {
    at::set_num_threads(1);
    keep_freed_memory();
    trainers_.resize(static_cast<size_t>(workers));
  }

  std::vector<ClientReport> train(const RoundTask& task, Sums& sums, ClientStore& store) override;
  Predictions predict_part(const State& state, const Split& split, int64_t first, int64_t count, bool logits) override;
  std::string describe() const override { return fmt::format("cpu, {} worker{}", workers_, workers_ == 1 ? "" : "s"); }

 private:
  LocalTraining& trainer(int worker) {
    auto& slot = trainers_[static_cast<size_t>(worker)];
    if (!slot) slot = std::make_unique<LocalTraining>(federation_);
    return *slot;
  }
  ClientReport train_client(const RoundTask& task, int64_t client, TensorMap& state, Sums& sums, int worker);
  /// Returns the logits.
  torch::Tensor predict_range(Network& network, const Split& split, int64_t first, int64_t count, int32_t* classes,
                              double& loss);

  const Federation& federation_;
  int workers_;
  std::vector<std::unique_ptr<LocalTraining>> trainers_;  // one per worker, made when first used
};

std::vector<ClientReport> CpuEngine::train(const RoundTask& task, Sums& sums, ClientStore& store) {
  const auto& clients = task.clients;
  const auto order = by_size(clients, federation_.partition);
  std::vector<ClientReport> reports(clients.size());
  parallel_for(static_cast<int64_t>(clients.size()), workers_, [&](int64_t item, int worker) {
    at::set_num_threads(1);
    const size_t at = order[static_cast<size_t>(item)];
    auto state = store.read(clients[at]);
    reports[at] = train_client(task, clients[at], state, sums, worker);
    store.write(clients[at], std::move(state));
  });
  return reports;
}

ClientReport CpuEngine::train_client(const RoundTask& task, int64_t client, TensorMap& state, Sums& sums, int worker) {
  const auto& own = federation_.partition[static_cast<size_t>(client)];
  const auto counts = class_counts(federation_.data.train.labels, own, federation_.data.classes());
  const auto context = context_of(task.round, client, counts, state);
  auto& local = trainer(worker);
  ClientReport report = local.run(context, task.method);

  send_update(federation_, task, context, local.network().state(), report, sums);
  if (task.evaluate_clients) {
    local.network().load(task.method.personalise(context, local.network().state().clone()));
    const Split& test = federation_.data.test;
    std::vector<int32_t> classes(static_cast<size_t>(test.count()));
    double loss = 0;
    for (int64_t first = 0; first < test.count(); first += evaluation_batch)
      predict_range(local.network(), test, first, std::min(evaluation_batch, test.count() - first),
                    classes.data() + first, loss);
    report.accuracy = class_accuracy(classes, test.labels, federation_.data.classes());
  }
  return report;
}

torch::Tensor CpuEngine::predict_range(Network& network, const Split& split, int64_t first, int64_t count,
                                       int32_t* classes, double& loss) {
  const auto shape = split.images.shape;
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  auto images = torch::empty({count, shape.channels, shape.height, shape.width});
  write_batch(split.images, indices, federation_.data.normalisation, images.data_ptr<float>());
  const auto logits = network.forward(images).logits.front();
  const auto best = logits.argmax(1).to(torch::kInt).contiguous();
  std::copy_n(best.data_ptr<int32_t>(), count, classes);
  const auto labels =
      torch::tensor(std::vector<int64_t>(split.labels.begin() + first, split.labels.begin() + first + count));
  loss = -logits.log_softmax(1).gather(1, labels.unsqueeze(1)).to(torch::kDouble).sum().item<double>();
  return logits;
}

Predictions CpuEngine::predict_part(const State& state, const Split& split, int64_t first, int64_t count, bool logits) {
  const int64_t batches = (count + evaluation_batch - 1) / evaluation_batch;
  Predictions predictions{std::vector<int32_t>(static_cast<size_t>(count)), 0, {}};
  if (logits) predictions.logits = torch::empty({count, state.model->classes});
  std::vector<double> losses(static_cast<size_t>(batches));
  std::vector<char> loaded(static_cast<size_t>(workers_));
  parallel_for(batches, workers_, [&](int64_t batch, int worker) {
    at::set_num_threads(1);
    throw_if_interrupted();
    auto& network = trainer(worker).network();
    if (loaded[static_cast<size_t>(worker)] == 0) network.load(state);
    loaded[static_cast<size_t>(worker)] = 1;
    const int64_t place = batch * evaluation_batch;
    const int64_t size = std::min(evaluation_batch, count - place);
    const auto some = predict_range(network, split, first + place, size, predictions.classes.data() + place,
                                    losses[static_cast<size_t>(batch)]);
    if (logits) predictions.logits.narrow(0, place, size).copy_(some);
  });
  for (const double loss : losses) predictions.loss_sum += std::ldexp(std::round(std::ldexp(loss, 32)), -32);
  return predictions;
}

}  // namespace

std::unique_ptr<Engine> make_cpu_engine(const EngineParams& params, const Federation& federation) {
  return std::make_unique<CpuEngine>(worker_threads(params), federation);
}

}  // namespace fedgrab
