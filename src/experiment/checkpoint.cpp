#include "fedgrab/experiment/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/experiment/posthoc_fit.h"
#include "fedgrab/experiment/settings.h"
#include "fedgrab/method/composition.h"
#include "fedgrab/model/safetensors.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr const char* card_key = "fedgrab";
constexpr const char* model_mark = "format";  // as others mark PyTorch's weights; checkpoints have none
const std::string server_prefix = "server/";
const std::string deployed_prefix = "deployed/";

ModelCard card_from_file(const TensorFile& file, const fs::path& path) {
  const auto found = file.metadata.find(card_key);
  if (found != file.metadata.end()) return card_from_text(found->second, path.string());
  throw Error(Fault::checkpoint, path.string(), "was not written by fedgrab: it does not say which model it holds",
              "use model.init to start a run from weights of another origin");
}

Architecture architecture_of(const ModelCard& card, const fs::path& path) {
  try {
    return make_architecture(card.architecture, card.input);
  } catch (const Error& error) {  // the file is at fault, not the command line
    throw Error(Fault::checkpoint, path.string(), error.what());
  }
}

fs::path newest_checkpoint(const fs::path& run) {
  const RunDirectory directory{run};
  const auto rounds = directory.checkpoint_rounds();
  if (rounds.empty())
    throw Error(Fault::checkpoint, run.string(),
                fs::exists(directory.model()) ? "holds no checkpoint" : "holds neither a model nor a checkpoint");
  return directory.checkpoint(rounds.back());
}

fs::path model_file(const fs::path& path, RunModel which) {
  if (!fs::is_directory(path)) return path;
  const RunDirectory directory{path};
  if (which == RunModel::best && fs::exists(directory.best())) return directory.best();
  return fs::exists(directory.model()) ? directory.model() : newest_checkpoint(path);
}

/// A model file goes to places that need not know where it was made.
void forget_machine(Config& config) {
  config.reset("engine.");
  for (const auto& key : path_keys()) config.reset(key);
}

/// A post-hoc classifier may read an auxiliary head, or what clients sent: only a run that had them left them.
void require_trained(const Composition& method, const Composition& trained, const Checkpoint& checkpoint,
                     const Config& config) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Fault::usage, "posthoc.kind",
                fmt::format("\"{}\" with prior.source = \"{}\" needs {}, and the model was trained without",
                            std::get<std::string>(config.get("posthoc.kind")),
                            std::get<std::string>(config.get("prior.source")), what),
                "prior.dpa.head=classifier needs nothing but the model");
  };
  const auto& heads = checkpoint.global.model->heads;
  for (const Head& wanted : method.needs().auxiliary)
    if (std::none_of(heads.begin(), heads.end(), [&](const Head& head) { return head.name == wanted.name; }))
      refuse(fmt::format("the auxiliary head \"{}\"", wanted.name));
  if (method.needs().features && !trained.needs().features) refuse("features of the clients");
  const auto context = method.begin_round(checkpoint.round + 1, 0, {}, {}, 1, checkpoint.global, checkpoint.server);
  if (method.needs().prior && !context.prior.defined()) refuse("an estimate that clients send");
}

}  // namespace

ModelCard card_of(Config config, const Dataset& data, const Model& model, int64_t round) {
  forget_machine(config);
  return {.architecture = read_settings(config).model.name,
          .input = data.shape(),
          .head = model.heads.front(),
          .class_names = data.class_names,
          .normalisation = data.normalisation,
          .round = round,
          .source = data.sources ? std::optional(data.sources->median) : std::nullopt,
          .config = config.to_toml()};
}

ModelCard for_export(ModelCard card) {
  Config config = resolve_config({"the description of the model", card.config}, {});
  forget_machine(config);
  card.config = config.to_toml();
  return card;
}

void save_checkpoint(const RunDirectory& directory, const ModelCard& card, const Checkpoint& checkpoint,
                     const State& deployed, const ClientStore& clients, int64_t keep) {
  make_folder(directory.checkpoints());
  TensorFile file{checkpoint.global.named(), {{card_key, to_text(card)}}};
  for (const auto& [name, tensor] : checkpoint.server) file.tensors.emplace(server_prefix + name, tensor);
  for (const auto& p : deployed.model->parameters)
    if (!torch::equal(deployed.view(p), checkpoint.global.view(p)))
      file.tensors.emplace(deployed_prefix + p.name, deployed.view(p));
  file.tensors.merge(clients.stacked());
  add_checksum(file);
  clients.link_files(
      RunDirectory::clients_of(directory.checkpoint(checkpoint.round)));  // first: a checkpoint that exists is complete
  save_safetensors(directory.checkpoint(checkpoint.round), file);
  auto rounds = directory.checkpoint_rounds();
  for (size_t i = 0; i + static_cast<size_t>(keep) < rounds.size(); ++i) directory.remove_checkpoint(rounds[i]);
}

ModelCard load_checkpoint(const fs::path& path, Checkpoint& checkpoint, ClientStore& clients) {
  const TensorFile file = load_safetensors(path);
  ModelCard card = card_from_file(file, path);
  checkpoint.global.assign(file.tensors, path.string());
  checkpoint.round = card.round;
  checkpoint.server.clear();
  for (const auto& [name, tensor] : file.tensors)
    if (name.starts_with(server_prefix)) checkpoint.server.emplace(name.substr(server_prefix.size()), tensor.clone());
  clients.restore(file.tensors, RunDirectory::clients_of(path), path.string());
  return card;
}

void check_resumed_settings(const Config& config, const ModelCard& card, const fs::path& checkpoint) {
  Config saved{full_schema()};
  const auto values = saved.read_toml_text(card.config, checkpoint.string());
  if (written_by_0_1(values))
    throw Error(Fault::checkpoint, checkpoint.string(), "was written by version 0.1, whose runs cannot be resumed",
                "eval, predict and export read it; start a new run with another --out");
  for (const auto& [key, value] : values) saved.set(key, value);
  const bool cosine = saved.read<TrainParams>("train").schedule == Schedule::cosine;
  for (const auto& parameter : saved.schema().all()) {
    const std::string& key = parameter.key;
    if (!saved.is_set(key) || saved.get(key) == config.get(key)) continue;
    if (key == "train.rounds" && !cosine) continue;
    if (is_path_key(key)) continue;  // in no card
    if (key.starts_with("engine.") || key.starts_with("record.") || key.starts_with("checkpoint.")) continue;
    throw Error(Fault::usage, key,
                fmt::format("{} differs from {}, with which {} was trained", to_text(config.get(key)),
                            to_text(saved.get(key)), checkpoint.string()),
                "was config.toml changed? Put the value back, or start a new run with another --out");
  }
}

void save_model(const fs::path& path, const ModelCard& card, const State& state) {
  TensorFile file{{}, {{model_mark, "pt"}, {card_key, to_text(card)}}};
  for (const auto& p : state.model->parameters) {
    const auto& heads = state.model->heads;
    const bool extra =
        std::any_of(heads.begin() + 1, heads.end(), [&](const Head& h) { return p.name.starts_with(h.name + "."); });
    if (!extra) file.tensors.emplace(p.name, state.view(p));
    // torchvision's strict loading requires this counter, which is not used while momentum is set
    if (p.kind == ParameterKind::running_mean)
      file.tensors.emplace(p.name.substr(0, p.name.rfind('.')) + ".num_batches_tracked",
                           torch::zeros({}, torch::kLong));
  }
  save_safetensors(path, file);
}

bool calibrated(const ModelCard& card) {
  return resolve_config({"the description of the model", card.config}, {}).read<PosthocParams>("posthoc").temperature;
}

LoadedModel load_model(const fs::path& path, RunModel which) {
  if (!fs::exists(path)) throw Error(Fault::checkpoint, path.string(), "no such file or folder");
  const fs::path file_path = model_file(path, which);
  const TensorFile file = load_safetensors(file_path);
  LoadedModel loaded{card_from_file(file, file_path), {}, {}, file_path};
  const auto classes = static_cast<int64_t>(loaded.card.class_names.size());
  loaded.state = initial_state(make_model(architecture_of(loaded.card, file_path), {loaded.card.head}, classes), 0);
  TensorMap tensors = file.tensors;
  for (const auto& [name, tensor] : file.tensors)
    if (name.starts_with(deployed_prefix)) tensors[name.substr(deployed_prefix.size())] = tensor;
  loaded.state.assign(tensors, file_path.string());
  return loaded;
}

namespace {

bool needs_data(const Composition& method) {
  return method.fitted() || method.has_temperature() || method.needs().global_counts;
}

}  // namespace

bool needs_data(const ModelCard& card, const Assignments& changes) {
  return needs_data(Composition(resolve_config({"the description of the model", card.config}, changes)));
}

LoadedModel redeploy(const fs::path& path, const Assignments& changes, const Preparation* prepared, RunModel which) {
  for (const auto& [key, value] : changes)
    if (key.starts_with("method") || key.starts_with("objective") || key.starts_with("server.") ||
        key.starts_with("head."))
      throw Error(Fault::usage, key, "cannot be changed after training",
                  "of a trained model posthoc.* and prior.* can be changed, posthoc.kind=tau-norm for one");
  LoadedModel loaded = load_model(path, which);
  const bool anything = std::any_of(changes.begin(), changes.end(), [](const auto& change) {
    return change.first.starts_with("posthoc") || change.first.starts_with("prior.");
  });
  if (!anything) return loaded;
  const fs::path file_path = fs::is_directory(path) ? newest_checkpoint(path) : path;
  const TensorFile file = load_safetensors(file_path);
  if (file.metadata.contains(model_mark))
    throw Error(Fault::checkpoint, path.string(), "holds the deployed model alone",
                "give a run directory or a checkpoint to have posthoc.* or prior.* changed");
  loaded.card = card_from_file(file, file_path);
  loaded.file = file_path;
  const TomlText trained_with{file_path.string(), loaded.card.config};
  const auto classes = static_cast<int64_t>(loaded.card.class_names.size());
  // The checkpoint has the heads of the parts that trained it.
  Composition trained(resolve_config(trained_with, {}));
  Checkpoint checkpoint;
  checkpoint.global = initial_state(trained.model(architecture_of(loaded.card, file_path), classes), 0);
  ClientStore clients;
  load_checkpoint(file_path, checkpoint, clients);

  const Config config = resolve_config(trained_with, changes);
  Composition method(config);
  if (needs_data(method) && prepared == nullptr)
    throw Error(Fault::usage, method.has_temperature() ? "posthoc.temperature" : "posthoc.kind", "is fitted on data");
  if (method.needs().global_counts) method.learn_counts(prepared->counts);
  require_trained(method, trained, checkpoint, config);
  if (method.fitted() || method.has_temperature()) {
    const Partition nobody;
    const Federation federation{prepared->data, nobody, checkpoint.global.model, config.read<TrainParams>("train")};
    const auto engine = make_engine(config.read<EngineParams>("engine"), federation);
    fit_posthoc(*engine, method, *prepared, checkpoint.global, checkpoint.server);
  }
  loaded.state = method.deploy(checkpoint.global, checkpoint.server);
  loaded.card.head = loaded.state.model->heads.front();
  loaded.card.config = config.to_toml();
  if (prepared != nullptr)
    loaded.posthoc =
        posthoc_record(std::get<std::string>(config.get("posthoc.kind")), method, *prepared, checkpoint.server);
  return loaded;
}

void initialise_from_file(State& state, const fs::path& path) {
  TensorFile file = load_safetensors(path);
  for (const auto& head : state.model->heads) {
    for (const auto& p : state.model->parameters) {
      if (!p.name.starts_with(head.name + ".")) continue;
      const auto found = file.tensors.find(p.name);
      if (found != file.tensors.end() && found->second.sizes() == at::IntArrayRef(p.shape)) continue;
      note(fmt::format("{}: {} starts afresh, the file has none of this shape", path.string(), p.name));
      file.tensors[p.name] = state.view(p).clone();
    }
  }
  state.assign(file.tensors, path.string());
}

}  // namespace fedgrab
