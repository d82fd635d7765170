/// The run directory of a run in progress: configuration, partition, metrics, TensorBoard, models and summary. On ranks
/// but the first it writes nothing.
#pragma once

#include <memory>
#include <optional>

#include "fedgrab/core/file.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/preparation.h"
#include "fedgrab/record/last_evaluation.h"
#include "fedgrab/record/run_directory.h"
#include "fedgrab/record/tensorboard.h"

namespace fedgrab {

class RunRecorder {
 public:
  RunRecorder(RunDirectory directory, bool writes) : directory_(std::move(directory)), writes_(writes) {}

  /// Takes the lock of the directory, before anything in it is changed: a run of another process stays as it is.
  void lock();
  /// The partition of a resumed run must be the one on disk.
  void check_partition(const Partition& partition, bool resumed) const;
  /// After the checkpoint is restored: cuts metrics back to `round` and writes what describes the run.
  void start(const Config& config, const Preparation& prepared, const Partition& partition, int64_t round,
             bool resumed);
  void append(const RoundRecord& record, const std::vector<std::vector<int64_t>>& confusion);
  void save_evaluation(const LastEvaluation& evaluation) const;
  void save_best(const ModelCard& card, const State& deployed) const;
  void finish(const ModelCard& card, const State& deployed, const Summary& summary) const;

  bool writes() const { return writes_; }
  const std::vector<RoundRecord>& records() const { return records_; }

 private:
  RunDirectory directory_;
  bool writes_;
  std::vector<RoundRecord> records_;
  std::vector<std::string> class_names_;
  std::unique_ptr<LineLog> metrics_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
};

}  // namespace fedgrab
