#include "fedgrab/experiment/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab {
namespace {

bool may_change_on_resume(const std::string& key) {
  static const std::vector<std::string> free{"train.rounds", "engine.", "record.", "checkpoint."};
  return std::any_of(free.begin(), free.end(), [&](const std::string& prefix) { return key.starts_with(prefix); });
}

/// Applies `file` and `flags` on top of `base`.
Config with_user_values(Config base, const TomlText& file, const Assignments& flags) {
  base.load_toml_text(file.text, file.name);
  for (const auto& [key, value] : flags) base.set_text(key, value);
  return base;
}

}  // namespace

Schema full_schema() {
  Schema schema;
  schema.add<DataParams>("data");
  schema.add<LongTailParams>("longtail");
  schema.add<PartitionParams>("partition");
  schema.add<ModelParams>("model");
  schema.add<TrainParams>("train");
  declare_methods(schema);
  schema.add<EngineParams>("engine");
  schema.add<EvalParams>("eval");
  schema.add<RecordParams>("record");
  schema.add<CheckpointParams>("checkpoint");
  return schema;
}

Settings read_settings(const Config& config) {
  return {.data = config.read<DataParams>("data"),
          .longtail = config.read<LongTailParams>("longtail"),
          .partition = config.read<PartitionParams>("partition"),
          .model = config.read<ModelParams>("model"),
          .train = config.read<TrainParams>("train"),
          .eval = config.read<EvalParams>("eval"),
          .record = config.read<RecordParams>("record"),
          .checkpoint = config.read<CheckpointParams>("checkpoint"),
          .engine = config.read<EngineParams>("engine"),
          .method = config.read<MethodParams>("method").name};
}

TomlText read_toml(const std::filesystem::path& file) { return {file.string(), read_text(file, Fault::usage)}; }

Config resolve_config(const std::optional<std::filesystem::path>& file, const Assignments& flags) {
  return resolve_config(file ? read_toml(*file) : TomlText{}, flags);
}

Config resolve_config(const TomlText& file, const Assignments& flags) {
  const Config plain = with_user_values(Config(full_schema()), file, flags);
  const std::string method = plain.read<MethodParams>("method").name;
  Config config{full_schema()};
  for (const auto& [key, value] : find_method(method).preset) config.set_text(key, value);
  return with_user_values(std::move(config), file, flags);
}

Config with_absolute_paths(Config config) {
  for (const char* key : {"data.path", "data.images", "data.cache", "partition.file", "model.init"}) {
    const auto path = std::get<std::string>(config.get(key));
    if (!path.empty()) config.set(key, std::filesystem::absolute(path).lexically_normal().string());
  }
  return config;
}

Config resumed_config(const std::filesystem::path& saved, const Config& asked_for) {
  const Config asked = with_absolute_paths(asked_for);
  Config config{full_schema()};
  config.load_toml(saved);
  config = with_absolute_paths(std::move(config));
  for (const auto& parameter : asked.schema().all()) {
    if (!asked.is_set(parameter.key) || asked.get(parameter.key) == config.get(parameter.key)) continue;
    // The cosine reaches zero in the last round: with another last round, the finished ones would have differed.
    const bool bends_schedule =
        parameter.key == "train.rounds" && config.read<TrainParams>("train").schedule == "cosine";
    static const std::vector<std::string> pinned{"engine.device", "engine.precision", "engine.slots", "engine.groups",
                                                 "engine.deterministic"};
    const bool other_bits = config.read<EngineParams>("engine").deterministic &&
                            std::find(pinned.begin(), pinned.end(), parameter.key) != pinned.end();
    if (!may_change_on_resume(parameter.key) || bends_schedule || other_bits)
      throw Error(Fault::usage, parameter.key,
                  fmt::format("{} differs from {} of {}, the run to be resumed", to_text(asked.get(parameter.key)),
                              to_text(config.get(parameter.key)), saved.parent_path().string()),
                  "resume without it, or start a new run with another --out");
    config.set(parameter.key, asked.get(parameter.key));
  }
  return config;
}

}  // namespace fedgrab
