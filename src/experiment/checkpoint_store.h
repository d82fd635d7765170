/// The checkpoints of a run in progress: what it needs to continue after a crash, over all ranks.
#pragma once

#include "fedgrab/core/communicator.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/record/run_directory.h"

namespace fedgrab {

class CheckpointStore {
 public:
  CheckpointStore(RunDirectory directory, Communicator& ranks, CheckpointParams params, const EngineParams& engine);

  ClientStore& clients() { return clients_; }
  /// Fills `state` from the newest checkpoint, where there is one; each rank keeps the states of its own clients.
  void restore(const Config& config, Checkpoint& state, const std::vector<int>& owners);
  /// By the number of the round, or by the time since the last checkpoint. A collective call.
  bool due(int64_t round);
  /// Does nothing where this round is saved already. `card` and `deployed` describe the model to evaluate.
  void save(const Checkpoint& state, const ModelCard& card, const State& deployed);

 private:
  /// Client states of the other ranks come to the first one through files in the run directory.
  void send_clients() const;
  void merge_clients();

  RunDirectory directory_;
  Communicator& ranks_;
  CheckpointParams params_;
  ClientStore clients_;
  int64_t saved_round_ = -1;
  Stopwatch since_saved_;
};

}  // namespace fedgrab
