#include "round_time.h"

#include <fmt/format.h>

#include <map>

#include "fedgrab/core/parallel.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/data/load.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/method/composition.h"

namespace fedgrab {
namespace {

constexpr int64_t batches_timed = 2;

StepTime measure(const Settings& settings) {
  note(fmt::format("timing a few steps of {} at batch {}", settings.model.name, settings.train.batch));
  const Dataset data = make_shapes(10, 10, settings.seed());
  const int workers = worker_threads(settings.engine);
  Partition partition(static_cast<size_t>(on_cuda(settings.engine) ? settings.partition.clients : workers));
  int64_t next = 0;
  for (auto& own : partition)
    for (int64_t i = 0; i < settings.train.batch * batches_timed; ++i) own.push_back(next++ % data.train.count());
  std::vector<int64_t> clients;
  for (size_t k = 0; k < partition.size(); ++k) clients.push_back(static_cast<int64_t>(k));

  Composition method(resolve_config(std::nullopt, {{"method", "fedavg"}}));
  const auto model = method.model(make_architecture(settings.model.name, data.shape()), data.classes());
  TrainParams train = settings.train;
  train.local_epochs = 1;
  const Federation federation{data, partition, model, train};
  const auto engine = make_engine(settings.engine, federation);
  const State global = initial_state(model, settings.seed());
  ClientStore store;
  const auto round = [&](int64_t number) {
    Sums sums;
    int64_t steps = 0;
    const std::vector<int64_t> sizes(clients.size(), settings.train.batch * batches_timed);
    const auto context = method.begin_round(number, settings.seed(), clients, sizes,
                                            static_cast<int64_t>(clients.size()), global, no_tensors);
    for (const auto& report : engine->train({.round = context, .method = method, .clients = clients}, sums, store))
      steps += report.steps;
    return static_cast<double>(steps);
  };
  round(1);  // libraries are loaded and memory is taken
  Stopwatch watch;
  const double steps = round(2);
  StepTime time{.step = watch.lap() / steps};
  engine->predict(global, data.test);
  watch.lap();
  engine->predict(global, data.test);
  time.image = watch.lap() / static_cast<double>(data.test.count());
  return time;
}

}  // namespace

StepTime time_step(const Settings& settings) {
  static std::map<std::string, StepTime> known;
  const auto key = fmt::format("{} {} {}", settings.model.name, settings.train.batch, name_of(settings.engine.device));
  const auto [entry, fresh] = known.try_emplace(key);
  if (fresh) entry->second = measure(settings);
  return entry->second;
}

}  // namespace fedgrab
