#include "checkpoint_store.h"

#include <fmt/format.h>

#include "fedgrab/core/error.h"
#include "fedgrab/model/safetensors.h"

namespace fedgrab {

namespace fs = std::filesystem;

CheckpointStore::CheckpointStore(RunDirectory directory, Communicator& ranks, CheckpointParams params,
                                 const EngineParams& engine)
    : directory_(std::move(directory)),
      ranks_(ranks),
      params_(params),
      clients_(directory_.root / (ranks.first() ? "clients" : fmt::format("clients-{}", ranks.rank())),
               static_cast<int64_t>(engine.client_memory * 0x1.0p30)) {}

void CheckpointStore::restore(const Config& config, Checkpoint& state, const std::vector<int>& owners) {
  const auto rounds = directory_.checkpoint_rounds();
  if (!rounds.empty()) {
    const fs::path newest = directory_.checkpoint(rounds.back());
    ModelCard card;
    try {
      card = load_checkpoint(newest, state, clients_);
    } catch (const Error& error) {
      // An older checkpoint would cut the record of the rounds between: that is the user's decision.
      if (rounds.size() == 1 || error.fault() != Fault::checkpoint) throw;
      throw Error(error.fault(), "--resume", error.what(),
                  fmt::format("remove that file to continue from round {}", rounds[rounds.size() - 2]));
    }
    check_resumed_settings(config, card, newest);
    saved_round_ = state.round;
  }
  // Other ranks train the other clients: an old copy here would be merged over their states.
  if (!ranks_.first())
    clients_.keep_only([&](int64_t client) { return owners[static_cast<size_t>(client)] == ranks_.rank(); });
}

bool CheckpointStore::due(int64_t round) {
  if (params_.every > 0 && round % params_.every == 0) return true;
  if (params_.minutes == 0) return false;
  const bool late = since_saved_.elapsed() >= 60 * params_.minutes;
  return ranks_.all_gather(late ? "late" : "").front() == "late";  // clocks differ: the first rank's decides
}

void CheckpointStore::save(const Checkpoint& state, const ModelCard& card, const State& deployed) {
  if (saved_round_ == state.round) return;
  ranks_.collective([&] { send_clients(); });
  ranks_.collective([&] {
    if (!ranks_.first()) return;
    merge_clients();
    save_checkpoint(directory_, card, state, deployed, clients_, params_.keep);
  });
  saved_round_ = state.round;
  since_saved_.lap();
}

void CheckpointStore::send_clients() const {
  if (ranks_.first()) return;
  const fs::path file = directory_.of_rank(ranks_.rank());
  save_safetensors(file, {clients_.in_memory(), {}});
  clients_.link_files(RunDirectory::clients_of(file));
}

void CheckpointStore::merge_clients() {
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    const fs::path file = directory_.of_rank(rank);
    clients_.merge(load_safetensors(file).tensors, RunDirectory::clients_of(file));
    fs::remove(file);
    fs::remove_all(RunDirectory::clients_of(file));
  }
}

}  // namespace fedgrab
