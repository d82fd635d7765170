/// The checkpoints of a run in progress: what it needs to go on after a crash, over all ranks.
#pragma once

#include "fedgrab/core/communicator.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/record/run_directory.h"

namespace fedgrab {

class CheckpointStore {
 public:
  CheckpointStore(RunDirectory directory, Communicator& ranks, CheckpointParams params, const EngineParams& engine);

  ClientStore& clients() { return clients_; }
  /// Fills `state` from the newest checkpoint, where there is one; each rank keeps the states of its own clients.
  void restore(const Config& config, Checkpoint& state, const std::vector<int>& owners);
  bool due(int64_t round) const { return params_.every > 0 && round % params_.every == 0; }
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
};

}  // namespace fedgrab
