#include "run_recorder.h"

#include <fmt/format.h>

#include "fedgrab/core/error.h"
#include "fedgrab/core/version.h"
#include "run_events.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_clients = 10000;  // whose class counts are listed

std::map<std::string, Value> values_of(const Config& config) {
  std::map<std::string, Value> values;
  for (const auto& parameter : config.schema().all()) values[parameter.key] = config.get(parameter.key);
  return values;
}

Population population_of(const Preparation& prepared, const Partition& partition) {
  Population population{prepared.data.class_names, prepared.counts, prepared.groups};
  if (partition.size() > most_clients) return population;
  for (const auto& samples : partition) {
    auto& counts = population.clients.emplace_back();
    for (const int64_t sample : samples) ++counts[prepared.data.train.labels[static_cast<size_t>(sample)]];
  }
  return population;
}

/// The resolved configuration. `fedgrab run` ignores [preset], which is for reports: they name a run by its method and
/// by what was changed beside it.
std::string config_text(const Config& config) {
  return fmt::format("# {}\n\n{}\n[preset]\nchanged = {}\n", program_text(), config.to_toml(),
                     to_text(changed_from_preset(config)));
}

/// What a killed process had begun to write. A finished run does not write these files again.
void remove_half_written(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".partial") found.push_back(entry.path());
  for (const auto& file : found) fs::remove(file);
}

}  // namespace

void RunRecorder::lock() {
  if (!writes_) return;
  make_folder(directory_.root);
  metrics_ = std::make_unique<LineLog>(directory_.metrics());
}

void RunRecorder::check_partition(const Partition& partition, bool resumed) const {
  if (!writes_) return;
  if (!resumed || !fs::exists(directory_.partition())) return save_partition(directory_.partition(), partition);
  if (load_partition(directory_.partition()) != partition)
    throw Error(Fault::data, directory_.partition().string(), "does not fit the data any more",
                "was the data set changed since the run began?");
}

void RunRecorder::start(const Config& config, const Preparation& prepared, const Partition& partition, int64_t round,
                        bool resumed) {
  class_names_ = prepared.data.class_names;
  if (metrics_) metrics_->keep(round);
  records_ = directory_.read_metrics();
  if (!writes_) return;
  if (static_cast<int64_t>(records_.size()) != round)
    throw Error(Fault::checkpoint, directory_.metrics().string(),
                fmt::format("holds {} rounds, the checkpoint is of round {}", records_.size(), round),
                "remove the checkpoints to start over");
  // Only now: a run that cannot be resumed stays as it was.
  remove_half_written(directory_.root);
  write_atomically(directory_.classes(), to_json(population_of(prepared, partition)).dump() + "\n");
  write_atomically(directory_.config(), config_text(config));
  fs::remove(directory_.summary());
  if (!resumed) remove_last_evaluation(directory_);
  if (!config.read<RecordParams>("record").tensorboard) return;
  tensorboard_ =
      std::make_unique<TensorBoardWriter>(directory_.root, resumed ? std::optional(round + 1) : std::nullopt);
  if (!resumed) tensorboard_->add_hyper_parameters(values_of(config));
}

void RunRecorder::append(const RoundRecord& record, const std::vector<std::vector<int64_t>>& confusion) {
  if (metrics_) metrics_->append(to_json(record).dump());
  records_.push_back(record);
  if (tensorboard_) write_events(*tensorboard_, record, class_names_, confusion);
}

void RunRecorder::save_evaluation(const LastEvaluation& evaluation) const {
  if (writes_) write_last_evaluation(directory_, evaluation);
}

void RunRecorder::save_best(const ModelCard& card, const State& deployed) const {
  if (writes_) save_model(directory_.best(), card, deployed);
}

void RunRecorder::finish(const ModelCard& card, const State& deployed, const Summary& summary) const {
  if (!writes_) return;
  save_model(directory_.model(), card, deployed);
  write_atomically(directory_.summary(), to_json(summary).dump(1) + "\n");
}

}  // namespace fedgrab
