#include "fedgrab/experiment/benchmark.h"

#include <fmt/format.h>

#include <algorithm>

#include "eager_model.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/peak_memory.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/experiment/federation_run.h"
#include "fedgrab/experiment/participation.h"
#include "fedgrab/objective/balancer.h"

namespace fedgrab {
namespace {

constexpr int repetitions = 5;
constexpr int64_t batches_per_client = 4;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds per call, over enough calls to fill the time.
template <class Work>
double seconds_per_call(double seconds, Work work) {
  const Stopwatch watch;
  int64_t calls = 0;
  do {
    work();
    ++calls;
  } while (watch.elapsed() < seconds);
  return watch.elapsed() / static_cast<double>(calls);
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
  /// So many even clients, one epoch; 0: the federation as it is configured.
  Workload(const Config& config, int64_t clients) : run(config) {
    if (clients == 0) return;
    run.settings.train.local_epochs = 1;
    run.settings.train.participation = 1;
    run.partition = even_clients(run.prepared, clients, run.settings.train.batch);
    run.federation->train = run.settings.train;
  }

  struct Done {
    int64_t steps = 0, samples = 0;
  };
  Done train_round(Engine& engine) {
    Sums sums;
    Done done;
    ++round;
    const auto cohort = choose_clients(static_cast<int64_t>(run.partition.size()), run.settings.train.participation,
                                       round, run.settings.seed());
    const auto context = run.begin_round(round, cohort, run.initial, no_tensors);
    for (const auto& report : engine.train({.round = context, .method = run.method, .clients = cohort}, sums, store)) {
      done.steps += report.steps;
      done.samples += report.samples;
    }
    store.commit();
    return done;
  }
  /// Client-steps per second over about `seconds`.
  double speed(Engine& engine, double seconds) {
    int64_t steps = 0;
    const Stopwatch watch;
    do steps += train_round(engine).steps;
    while (watch.elapsed() < seconds);
    return static_cast<double>(steps) / watch.elapsed();
  }
  /// Of a round, by the clients that take part on average.
  double steps_per_round(int64_t local_epochs) const {
    const auto& train = run.settings.train;
    return static_cast<double>(run.prepared.samples.size()) * static_cast<double>(local_epochs) * train.participation /
           static_cast<double>(train.batch);
  }

  FederationRun run;
  ClientStore store;
  int64_t round = 0;
};

/// LibTorch's eager loop on one ready batch.
class EagerLoop {
 public:
  EagerLoop(const Model& model, int64_t batch, const TrainParams& train, torch::Device device = torch::kCPU)
      : network_(std::make_shared<EagerModel>(model)),
        images_(torch::randn({batch, model.architecture.input.channels, model.architecture.input.height,
                              model.architecture.input.width})
                    .to(device)),
        labels_(torch::randint(model.classes, {batch}, torch::kLong).to(device)) {
    network_->to(device);
    optimiser_ = std::make_unique<torch::optim::SGD>(
        network_->parameters(),
        torch::optim::SGDOptions(train.lr).momentum(train.momentum).weight_decay(train.weight_decay));
  }

  void step() {
    optimiser_->zero_grad();
    const auto loss = torch::cross_entropy_loss(network_->forward(images_), labels_);
    loss.backward();
    optimiser_->step();
    last_loss_ = loss.item<float>();  // every loop looks at its loss
  }

 private:
  std::shared_ptr<EagerModel> network_;
  std::unique_ptr<torch::optim::SGD> optimiser_;
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

/// Multiplications and additions of one sample, forward and both backward products.
double flops_per_sample(const Model& model) {
  double multiplications = static_cast<double>(model.architecture.features * model.classes);
  std::vector<std::pair<int64_t, int64_t>> sizes;  // height and width behind each layer
  for (const auto& layer : model.architecture.layers) {
    auto size = layer.input < 0 ? std::pair(model.architecture.input.height, model.architecture.input.width)
                                : sizes[static_cast<size_t>(layer.input)];
    if (layer.kind == LayerKind::convolution || layer.kind == LayerKind::max_pool)
      for (auto* side : {&size.first, &size.second})
        *side = (*side + 2 * layer.padding - layer.kernel) / layer.stride + 1;
    sizes.push_back(size);
    if (layer.kind == LayerKind::convolution)
      multiplications += static_cast<double>(layer.in * layer.out * layer.kernel * layer.kernel) *
                         static_cast<double>(size.first * size.second);
    if (layer.kind == LayerKind::linear) multiplications += static_cast<double>(layer.in * layer.out);
  }
  return 2 * 3 * multiplications;
}

/// Weight and momentum, each read and written, four bytes apiece.
int64_t least_bytes(const Workload& work) { return work.run.initial.model->parameter_count() * 16; }

DeviceFloors measure_floors(const Workload& work, double seconds) {
  DeviceFloors floors;
  const auto bf16 = torch::dtype(torch::kBFloat16).device(torch::kCUDA);
  constexpr int64_t side = 8192, bytes = int64_t{1} << 30;
  const auto a = torch::ones({side, side}, bf16), b = torch::ones({side, side}, bf16);
  auto product = torch::empty({side, side}, bf16);
  const auto from = torch::ones({bytes}, torch::dtype(torch::kByte).device(torch::kCUDA));
  auto to = torch::empty_like(from);
  const auto timed = [&](auto launch) {
    launch();
    torch::cuda::synchronize();
    return seconds_per_call(seconds,
                            [&] {
                              for (int i = 0; i < 10; ++i) launch();
                              torch::cuda::synchronize();
                            }) /
           10;
  };
  floors.tera_flops = 2.0 * side * side * side / timed([&] { torch::mm_out(product, a, b); }) * 1e-12;
  floors.bytes_per_second = 2.0 * bytes / timed([&] { to.copy_(from); });
  const auto batch = static_cast<double>(work.run.settings.train.batch);
  floors.arithmetic_ms = batch * flops_per_sample(*work.run.initial.model) / (floors.tera_flops * 1e12) * 1e3;
  floors.memory_ms = static_cast<double>(least_bytes(work)) / floors.bytes_per_second * 1e3;
  return floors;
}

double run_peta_flops(const Workload& work, double samples_per_round) {
  return samples_per_round * static_cast<double>(work.run.settings.train.rounds) *
         flops_per_sample(*work.run.initial.model) * 1e-15;
}

BenchReport new_report(const Workload& work, const Engine& engine) {
  return {.model = work.run.settings.model.name,
          .device = engine.describe(),
          .method = work.run.settings.method,
          .batch = work.run.settings.train.batch,
          .classes = work.run.initial.model->classes,
          .parameters = work.run.initial.model->parameter_count(),
          .clients = static_cast<int64_t>(work.run.partition.size()),
          .step_bytes = least_bytes(work)};
}

BenchReport benchmark_cpu(const Config& config, double seconds, bool with_resnet18) {
  const auto settings = read_settings(config);
  const int workers = worker_threads(settings.engine);
  Workload work(config, int64_t{2} * workers);
  const auto& train = work.run.settings.train;
  const auto one = make_engine({.device = Device::cpu, .workers = 1}, *work.run.federation);
  const auto all = make_engine({.device = Device::cpu, .workers = workers}, *work.run.federation);
  EagerLoop eager(*work.run.initial.model, train.batch, train);
  work.train_round(*one);
  work.train_round(*all);
  eager.step();

  // Short measurements in turn, so that other load on the machine affects all three alike.
  Progress progress("bench", repetitions);
  std::vector<double> single, parallel, plain;
  for (int turn = 0; turn < repetitions; ++turn) {
    plain.push_back(seconds_per_call(seconds / repetitions, [&] { eager.step(); }));
    single.push_back(work.speed(*one, seconds / repetitions));
    parallel.push_back(work.speed(*all, seconds / repetitions));
    progress.update(turn + 1);
  }
  progress.finish();

  BenchReport report = new_report(work, *all);
  const auto speed = [&](int64_t n, double steps) {
    return EngineSpeed{n, steps, steps * static_cast<double>(train.batch),
                       steps / work.steps_per_round(settings.train.local_epochs)};
  };
  report.speeds = {speed(1, median(single)), speed(workers, median(parallel))};
  report.speedup = report.speeds[1].steps_per_second / report.speeds[0].steps_per_second;
  report.step_ms = 1e3 / report.speeds[0].steps_per_second;
  report.eager_step_ms = 1e3 * median(plain);
  report.tera_flops = report.speeds[1].samples_per_second * flops_per_sample(*work.run.initial.model) * 1e-12;
  report.run_peta_flops =
      run_peta_flops(work, work.steps_per_round(settings.train.local_epochs) * static_cast<double>(train.batch));
  report.balancer_us = balancer_microseconds(seconds / repetitions);
  if (with_resnet18) report.resnet18_step_ms = resnet18_milliseconds(seconds);
  return report;
}

/// Whole rounds of the configured federation: with its partial batches and uneven clients.
BenchReport benchmark_cuda(const Config& config, double seconds) {
  Workload work(config, 0);
  const auto engine = make_engine(work.run.settings.engine, *work.run.federation);
  work.train_round(*engine);
  Progress progress("bench", repetitions + 2);
  std::vector<double> per_step;
  Workload::Done done;
  for (int turn = 0; turn < repetitions; ++turn) {
    const Stopwatch watch;
    done = work.train_round(*engine);
    per_step.push_back(watch.elapsed() / static_cast<double>(done.steps));
    progress.update(turn + 1);
  }
  BenchReport report = new_report(work, *engine);
  report.phase_seconds = engine->phase_seconds();
  report.device_memory_bytes = engine->peak_device_bytes();
  Stopwatch watch;
  engine->predict(work.run.initial, work.run.prepared.data.test);
  report.phase_seconds["evaluate"] = watch.lap();

  report.step_ms = 1e3 * median(per_step);
  const double steps = 1e3 / report.step_ms;
  const double samples = steps * static_cast<double>(done.samples) / static_cast<double>(done.steps);
  report.speeds = {{1, steps, samples, steps / static_cast<double>(done.steps)}};
  report.tera_flops = samples * flops_per_sample(*work.run.initial.model) * 1e-12;
  report.run_peta_flops = run_peta_flops(work, static_cast<double>(done.samples));
  EagerLoop eager(*work.run.initial.model, work.run.settings.train.batch, work.run.settings.train, torch::kCUDA);
  for (int i = 0; i < 10; ++i) eager.step();
  report.eager_step_ms = 1e3 * seconds_per_call(seconds, [&] { eager.step(); });
  progress.update(repetitions + 1);
  report.floors = measure_floors(work, seconds / repetitions);
  progress.finish();
  return report;
}

Assignments paper_settings(const char* batch) {
  return {{"data.name", "shapes"},    {"data.per_class", "5000"},  {"data.augment", "crop+flip"},
          {"longtail.factor", "100"}, {"partition.clients", "40"}, {"partition.alpha", "1"},
          {"model.name", "resnet18"}, {"train.local_epochs", "5"}, {"train.lr", "0.03"},
          {"train.momentum", "0.5"},  {"train.batch", batch},      {"method.name", "fedgrab"}};
}

/// pfl-research's benchmark of simulators: CIFAR-10, 1,500 rounds of 50 of 1,000 users with 50 images each.
Assignments pfl_settings() {
  return {{"data.name", "shapes"},   {"data.per_class", "5000"},      {"data.augment", "none"},
          {"longtail.factor", "1"},  {"partition.kind", "iid"},       {"partition.clients", "1000"},
          {"model.name", "pfl-cnn"}, {"train.participation", "0.05"}, {"train.local_epochs", "1"},
          {"train.lr", "0.1"},       {"train.momentum", "0"},         {"train.batch", "10"},
          {"method.name", "fedavg"}, {"engine.slots", "50"},          {"engine.groups", "2"}};
}

}  // namespace

const std::vector<BenchWorkload>& bench_workloads() {
  static const std::vector<BenchWorkload> workloads{
      {"paper", "CIFAR-10-LT of the paper: ResNet-18, 40 clients, 12,406 images, batch 5", paper_settings("5")},
      {"paper10", "the same at batch 10", paper_settings("10")},
      {"paper32", "the same at batch 32", paper_settings("32")},
      {"pfl", "pfl-research's CIFAR-10 benchmark: a CNN, 50 of 1,000 users a round, batch 10; 1,500 rounds of it",
       pfl_settings()},
  };
  return workloads;
}

const BenchWorkload& find_workload(const std::string& name) {
  std::string names;
  for (const auto& workload : bench_workloads()) {
    if (workload.name == name) return workload;
    names += (names.empty() ? "" : ", ") + workload.name;
  }
  throw Error(Fault::usage, "--workload", fmt::format("unknown workload \"{}\"", name), "one of " + names);
}

BenchReport run_benchmark(const Config& config, double seconds, bool with_resnet18) {
  BenchReport report = on_cuda(read_settings(config).engine) ? benchmark_cuda(config, seconds)
                                                             : benchmark_cpu(config, seconds, with_resnet18);
  report.overhead = report.step_ms / report.eager_step_ms - 1;
  report.peak_memory_bytes = peak_memory_bytes();
  return report;
}

Json to_json(const BenchReport& r) {
  Json json{{"workload", r.workload}, {"model", r.model},           {"method", r.method},
            {"device", r.device},     {"batch", r.batch},           {"classes", r.classes},
            {"clients", r.clients},   {"parameters", r.parameters}, {"speeds", Json::array()}};
  for (const auto& s : r.speeds)
    json["speeds"].push_back({{"workers", s.workers},
                              {"client_steps_per_second", s.steps_per_second},
                              {"samples_per_second", s.samples_per_second},
                              {"rounds_per_second", s.rounds_per_second}});
  json["speedup"] = r.speedup;
  json["step_ms"] = r.step_ms;
  json["eager_step_ms"] = r.eager_step_ms;
  json["overhead"] = r.overhead;
  json["tera_flops"] = r.tera_flops;
  json["run_peta_flops"] = r.run_peta_flops;
  json["step_bytes"] = r.step_bytes;
  if (r.balancer_us > 0) json["balancer_step_us"] = r.balancer_us;
  if (r.resnet18_step_ms > 0) {
    json["resnet18_step_ms"] = r.resnet18_step_ms;
    json["balancer_share_of_resnet18"] = r.balancer_us / 1e3 / r.resnet18_step_ms;
  }
  if (r.floors.tera_flops > 0)
    json["floors"] = {{"tera_flops", r.floors.tera_flops},
                      {"bytes_per_second", r.floors.bytes_per_second},
                      {"arithmetic_ms", r.floors.arithmetic_ms},
                      {"memory_ms", r.floors.memory_ms},
                      {"share_of_arithmetic", r.floors.arithmetic_ms / r.step_ms},
                      {"share_of_memory", r.floors.memory_ms / r.step_ms}};
  for (const auto& [phase, seconds] : r.phase_seconds) json["phase_seconds"][phase] = seconds;
  json["peak_memory_bytes"] = r.peak_memory_bytes;
  if (r.device_memory_bytes > 0) json["device_memory_bytes"] = r.device_memory_bytes;
  return json;
}

}  // namespace fedgrab
