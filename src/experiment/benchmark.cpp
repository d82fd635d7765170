#include "fedgrab/experiment/benchmark.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "eager_model.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/experiment/preparation.h"
#include "fedgrab/objective/balancer.h"

namespace fedgrab {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int repetitions = 5;
constexpr int64_t batches_per_client = 4;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds per call, over enough calls to fill the time.
template <class Work>
double seconds_per_call(double seconds, Work work) {
  const auto start = Clock::now();
  int64_t calls = 0;
  do {
    work();
    ++calls;
  } while (since(start) < seconds);
  return since(start) / static_cast<double>(calls);
}

/// Clients of equal size and whole batches, so that what is measured is steps and not the partition.
Partition even_clients(const Preparation& prepared, int64_t clients, int64_t batch) {
  Partition partition(static_cast<size_t>(clients));
  size_t next = 0;
  for (auto& own : partition)
    for (int64_t i = 0; i < batch * batches_per_client; ++i)
      own.push_back(prepared.samples[next++ % prepared.samples.size()]);
  return partition;
}

/// A federation to time, with everything it refers to.
struct Workload {
  Workload(const Config& config, int workers)
      : settings(read_settings(config)), method(find_method(settings.method).make(config)) {
    settings.train.local_epochs = 1;
    prepared = prepare(settings);
    partition = even_clients(prepared, int64_t{2} * workers, settings.train.batch);
    for (size_t k = 0; k < partition.size(); ++k) clients.push_back(static_cast<int64_t>(k));
    model = make_model(make_architecture(settings.model.name, prepared.data.shape()), method->heads(),
                       prepared.data.classes());
    federation = std::make_unique<Federation>(Federation{prepared.data, partition, model, settings.train});
    global = initial_state(model, settings.seed());
  }

  /// Client-steps of one round.
  int64_t train_round(Engine& engine) {
    Sums sums;
    int64_t steps = 0;
    for (const auto& report :
         engine.train({.round = ++round, .clients = clients, .global = global, .method = *method}, sums, store))
      steps += report.steps;
    store.commit();
    return steps;
  }
  /// Client-steps per second over about `seconds`.
  double speed(Engine& engine, double seconds) {
    int64_t steps = 0;
    const auto start = Clock::now();
    do steps += train_round(engine);
    while (since(start) < seconds);
    return static_cast<double>(steps) / since(start);
  }

  Settings settings;
  std::unique_ptr<Method> method;
  Preparation prepared;
  Partition partition;
  std::vector<int64_t> clients;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Federation> federation;
  State global;
  ClientStore store;
  int64_t round = 0;
};

/// LibTorch's eager loop on one ready batch.
class EagerLoop {
 public:
  EagerLoop(const Model& model, int64_t batch, const TrainParams& train)
      : network_(model),
        optimiser_(network_.parameters(),
                   torch::optim::SGDOptions(train.lr).momentum(train.momentum).weight_decay(train.weight_decay)),
        images_(torch::randn({batch, model.architecture.input.channels, model.architecture.input.height,
                              model.architecture.input.width})),
        labels_(torch::randint(model.classes, {batch}, torch::kLong)) {}

  void step() {
    optimiser_.zero_grad();
    const auto loss = torch::cross_entropy_loss(network_.forward(images_), labels_);
    loss.backward();
    optimiser_.step();
    last_loss_ = loss.item<float>();  // every loop looks at its loss
  }

 private:
  EagerModel network_;
  torch::optim::SGD optimiser_;
  torch::Tensor images_, labels_;
  float last_loss_ = 0;
};

double balancer_microseconds(double seconds) {
  constexpr int64_t classes = 1000, batch = 32;
  Balancer balancer(classes);
  balancer.set_prior(torch::linspace(1, 0.1, classes));
  const auto logits = torch::randn({batch, classes});
  const auto labels = torch::randint(classes, {batch}, torch::kLong);
  balancer.step(logits, labels);
  return 1e6 * seconds_per_call(seconds, [&] { balancer.step(logits, labels); });
}

double resnet18_milliseconds(double seconds) {
  const auto model = make_model(make_architecture("resnet18", {3, 32, 32}), {Head{}}, 10);
  EagerLoop eager(*model, 32, TrainParams{});
  eager.step();
  return 1e3 * seconds_per_call(seconds, [&] { eager.step(); });
}

}  // namespace

BenchReport run_benchmark(const Config& config, double seconds, bool with_resnet18) {
  const auto workers = static_cast<int>(read_settings(config).engine.workers > 0 ? read_settings(config).engine.workers
                                                                                 : available_cores());
  Workload work(config, workers);
  const auto& train = work.settings.train;
  const auto one = make_engine({.device = work.settings.engine.device, .workers = 1}, *work.federation);
  const auto all = make_engine({.device = work.settings.engine.device, .workers = workers}, *work.federation);
  EagerLoop eager(*work.model, train.batch, train);
  work.train_round(*one);
  work.train_round(*all);
  eager.step();

  // Short turns one after the other: whatever else the machine does meets all three alike.
  Progress progress("bench", repetitions);
  std::vector<double> single, parallel, plain;
  for (int turn = 0; turn < repetitions; ++turn) {
    plain.push_back(seconds_per_call(seconds / repetitions, [&] { eager.step(); }));
    single.push_back(work.speed(*one, seconds / repetitions));
    parallel.push_back(work.speed(*all, seconds / repetitions));
    progress.update(turn + 1);
  }
  progress.finish();

  BenchReport report{.model = work.settings.model.name,
                     .device = all->describe(),
                     .method = work.settings.method,
                     .batch = train.batch,
                     .classes = work.model->classes,
                     .parameters = work.model->parameter_count()};
  const double round_steps = static_cast<double>(work.prepared.samples.size() *
                                                 static_cast<size_t>(read_settings(config).train.local_epochs)) /
                             static_cast<double>(train.batch);
  const auto speed = [&](int64_t n, double steps) {
    return EngineSpeed{n, steps, steps * static_cast<double>(train.batch), steps / round_steps};
  };
  report.speeds = {speed(1, median(single)), speed(workers, median(parallel))};
  report.speedup = report.speeds[1].steps_per_second / report.speeds[0].steps_per_second;
  report.step_ms = 1e3 / report.speeds[0].steps_per_second;
  report.eager_step_ms = 1e3 * median(plain);
  report.overhead = report.step_ms / report.eager_step_ms - 1;
  report.balancer_us = balancer_microseconds(seconds / repetitions);
  if (with_resnet18) report.resnet18_step_ms = resnet18_milliseconds(seconds);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  report.peak_memory_bytes = int64_t{usage.ru_maxrss} * 1024;
  return report;
}

Json to_json(const BenchReport& r) {
  Json json{{"model", r.model},     {"method", r.method},         {"device", r.device},     {"batch", r.batch},
            {"classes", r.classes}, {"parameters", r.parameters}, {"speeds", Json::array()}};
  for (const auto& s : r.speeds)
    json["speeds"].push_back({{"workers", s.workers},
                              {"client_steps_per_second", s.steps_per_second},
                              {"samples_per_second", s.samples_per_second},
                              {"rounds_per_second", s.rounds_per_second}});
  json["speedup"] = r.speedup;
  json["step_ms"] = r.step_ms;
  json["eager_step_ms"] = r.eager_step_ms;
  json["overhead"] = r.overhead;
  json["balancer_step_us"] = r.balancer_us;
  if (r.resnet18_step_ms > 0) {
    json["resnet18_step_ms"] = r.resnet18_step_ms;
    json["balancer_share_of_resnet18"] = r.balancer_us / 1e3 / r.resnet18_step_ms;
  }
  json["peak_memory_bytes"] = r.peak_memory_bytes;
  return json;
}

}  // namespace fedgrab
