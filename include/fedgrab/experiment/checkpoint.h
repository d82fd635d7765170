/// A run at the end of a round, as one safetensors file: the model under its own names, the state of the server and of
/// the clients, and a description that makes the file usable on its own.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/core/parameters.h"
#include "fedgrab/data/dataset.h"
#include "fedgrab/engine/client_store.h"
#include "fedgrab/experiment/model_card.h"
#include "fedgrab/experiment/preparation.h"
#include "fedgrab/model/state.h"
#include "fedgrab/record/run_directory.h"

namespace fedgrab {

/// Of a run's model after a round, as it is deployed (Composition::deploy). The same model has the same card, whoever
/// trained it: engine.* is left out.
ModelCard card_of(Config config, const Dataset& data, const Model& model, int64_t round);

/// The same without engine.* and local paths, which files that others wrote may have.
ModelCard for_export(ModelCard card);

struct Checkpoint {
  int64_t round = 0;
  State global;
  TensorMap server;
};

/// Atomic; then removes all but the newest `keep`. `deployed` is the model to evaluate (Composition::deploy): where it
/// differs from the one in training, both are kept.
void save_checkpoint(const RunDirectory& directory, const ModelCard& card, const Checkpoint& checkpoint,
                     const State& deployed, const ClientStore& clients, int64_t keep);

/// Fills checkpoint and clients from a file; checkpoint.global says which model is expected. Throws
/// Error(Fault::checkpoint) naming the file.
ModelCard load_checkpoint(const std::filesystem::path& path, Checkpoint& checkpoint, ClientStore& clients);

/// Throws a usage Error if the run would continue with other settings than the checkpoint was trained with. Rounds
/// (unless the schedule depends on them), places of files, engine.*, record.* and checkpoint.* may differ.
void check_resumed_settings(const Config& config, const ModelCard& card, const std::filesystem::path& checkpoint);

/// Backbone and classifying head alone, in torchvision's names, loadable there with strict checking.
void save_model(const std::filesystem::path& path, const ModelCard& card, const State& state);

/// Whether the softmax of the model's logits is calibrated: a temperature was fitted.
bool calibrated(const ModelCard& card);

/// Which model of a run directory is meant: best.safetensors where there is one, or that of the last round.
enum class RunModel { best, last };
template <>
inline constexpr auto enum_names<RunModel> = names("best", "last");  // in summary.json, too

struct LoadedModel {
  ModelCard card;
  State state;                 // with one head
  PosthocRecord posthoc;       // where redeploy() changed it, for data
  std::filesystem::path file;  // it was read from
};
/// From a model file, a checkpoint, or a run directory (without a final model, its newest checkpoint).
LoadedModel load_model(const std::filesystem::path& path, RunModel which = RunModel::best);

/// Whether what a model is deployed with, after `changes`, is computed from the data of its run.
bool needs_data(const ModelCard& card, const Assignments& changes);

/// The same as load_model; where `changes` name posthoc.* or prior.*, the model of the checkpoint, or of a run
/// directory's newest one, is deployed again with them: with τ-norm, say, after FedAvg. `prepared`: the data of the
/// run; may be null where needs_data() is false.
LoadedModel redeploy(const std::filesystem::path& path, const Assignments& changes, const Preparation* prepared,
                     RunModel which = RunModel::best);

/// Starts `state` from a safetensors file; a head of another number of classes keeps its random start.
void initialise_from_file(State& state, const std::filesystem::path& path);

}  // namespace fedgrab
