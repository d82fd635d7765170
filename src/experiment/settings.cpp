#include "fedgrab/experiment/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/method/composition.h"
#include "fedgrab/method/moved_parameters.h"
#include "fedgrab/method/presets.h"

namespace fedgrab {
namespace {

const std::string method_name_key = "method.name";

bool may_change_on_resume(const std::string& key) {
  static const std::vector<std::string> free{"train.rounds", "engine.", "record.", "checkpoint."};
  return std::any_of(free.begin(), free.end(), [&](const std::string& prefix) { return key.starts_with(prefix); });
}

std::string text_of(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : to_text(value);
}

/// In such a record prior.* refers to the losses: Fed-GraB had parameters of its own, and for losses `dpa` meant class
/// sizes too.
void from_0_1_record(std::vector<std::pair<std::string, Value>>& values, const Preset& preset) {
  const auto& set = preset.values;
  const bool own_prior =
      std::any_of(set.begin(), set.end(), [](const auto& value) { return value.first == "prior.scale"; });
  if (own_prior) {
    std::erase_if(values, [](const auto& value) { return value.first.starts_with("prior."); });
  } else if (std::any_of(values.begin(), values.end(), [](const auto& value) {
               return value.first == "prior.source" && text_of(value.second) == "dpa";
             })) {
    values.emplace_back("objective.class_sizes", name_of(ClassSizes::prior));
  }
  // Centralised training was a method then, and its partition unused.
  const bool central = std::any_of(set.begin(), set.end(), [](const auto& v) { return v.first == "partition.kind"; });
  if (central) std::erase_if(values, [](const auto& value) { return value.first == "partition.kind"; });
}

/// Sets values in order, those of version 0.1 under today's names.
class Translating {
 public:
  Translating(Config& config, std::string preset) : config_(config), preset_(std::move(preset)) {}

  void set(const std::string& key, const Value& value) {
    if (!moved(key, text_of(value))) config_.set(key, value);
  }
  void set_text(const std::string& key, const std::string& text) {
    if (!moved(key, text)) config_.set_text(key, text);
  }
  /// One warning for all of them.
  void warn_once() const {
    if (!notes_.empty()) warn(fmt::format("parameters of version 0.1: {}", fmt::join(notes_, "; ")));
  }

 private:
  bool moved(const std::string& key, const std::string& value) {
    if (!is_moved(key, value)) return false;
    const auto translated = translate_moved(key, value, preset_);
    std::vector<std::string> now;
    for (const auto& [name, text] : translated.now) {
      config_.set_text(name, text);
      now.push_back(fmt::format("{}={}", name, text));
    }
    if (!translated.applies)
      notes_.push_back(fmt::format("{} has no effect with --method {}", key, preset_));
    else if (translated.removed)
      notes_.push_back(fmt::format("{} was removed", key));
    else if (!now.empty())
      notes_.push_back(fmt::format("{}={} is now {}", key, value, fmt::join(now, " ")));
    return true;
  }

  Config& config_;
  std::string preset_;
  std::vector<std::string> notes_;
};

/// The method that they name, flags before file.
std::string method_in(const std::vector<std::pair<std::string, Value>>& values, const Assignments& flags,
                      std::string fallback) {
  const Schema schema = full_schema();
  const auto names_method = [&](const std::string& key) {
    return schema.contains(key) && schema.find(key).key == method_name_key;
  };
  for (const auto& [key, value] : values)
    if (names_method(key)) fallback = text_of(value);
  for (const auto& [key, text] : flags)
    if (names_method(key)) fallback = text;
  return fallback;
}

/// Sets the values of a file, then flags.
void apply(Config& config, const std::string& file, std::vector<std::pair<std::string, Value>> values,
           const Assignments& flags, const Preset& preset) {
  const bool old_record = written_by_0_1(values);
  if (old_record) from_0_1_record(values, preset);
  Translating translating(config, preset.name);
  try {
    for (const auto& [key, value] : values) translating.set(key, value);
  } catch (const Error& error) {
    throw Error(error.fault(), file, error.what());
  }
  for (const auto& [key, text] : flags) translating.set_text(key, text);
  if (!old_record) translating.warn_once();
}

}  // namespace

bool written_by_0_1(const std::vector<std::pair<std::string, Value>>& values) {
  const auto has = [&](const char* key) {
    return std::any_of(values.begin(), values.end(), [&](const auto& value) { return value.first == key; });
  };
  return has("method.fedprox.mu") && has("method.fedgrab.head");
}

Schema full_schema() {
  Schema schema;
  schema.add<DataParams>("data");
  schema.add<LongTailParams>("longtail");
  schema.add<PartitionParams>("partition");
  schema.add<ModelParams>("model");
  schema.add<TrainParams>("train");
  declare_parts(schema);
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

Assignments assignments_of(const std::vector<std::string>& texts) {
  Assignments assignments;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos)
      throw Error(Fault::usage, text, "not of the form key=value", "for example train.lr=0.1");
    assignments.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return assignments;
}

TomlText read_toml(const std::filesystem::path& file) { return {file.string(), read_text(file, Fault::usage)}; }

Config resolve_config(const std::optional<std::filesystem::path>& file, const Assignments& flags) {
  return resolve_config(file ? read_toml(*file) : TomlText{}, flags);
}

Config resolve_config(const TomlText& file, const Assignments& flags) {
  Config config{full_schema()};
  auto values = config.read_toml_text(file.text, file.name);
  const Preset& preset = find_preset(method_in(values, flags, MethodParams().name));
  for (const auto& [key, value] : preset.values) config.set_text(key, value);
  apply(config, file.name, std::move(values), flags, preset);
  return config;
}

std::vector<std::string> changed_from_preset(const Config& config) {
  const Config own = resolve_config(std::nullopt, {{method_name_key, config.read<MethodParams>("method").name}});
  std::vector<std::string> changed;
  for (const auto& parameter : config.schema().all())
    if (config.get(parameter.key) != own.get(parameter.key)) changed.push_back(parameter.key);
  return changed;
}

Config with_absolute_paths(Config config) {
  for (const auto& key : path_keys()) {
    const auto path = std::get<std::string>(config.get(key));
    if (!path.empty()) config.set(key, std::filesystem::absolute(path).lexically_normal().string());
  }
  return config;
}

Config resumed_config(const std::filesystem::path& saved, const Config& asked_for) {
  const Config asked = with_absolute_paths(asked_for);
  Config config = with_absolute_paths(resolve_config(saved, {}));
  for (const auto& parameter : asked.schema().all()) {
    if (!asked.is_set(parameter.key) || asked.get(parameter.key) == config.get(parameter.key)) continue;
    // The cosine reaches zero in the last round: with another last round, the finished ones would have differed.
    const bool bends_schedule =
        parameter.key == "train.rounds" && config.read<TrainParams>("train").schedule == Schedule::cosine;
    static const std::vector<std::string> pinned{"engine.device", "engine.precision", "engine.slots", "engine.groups",
                                                 "engine.deterministic"};
    const bool other_bits = config.read<EngineParams>("engine").deterministic &&
                            std::find(pinned.begin(), pinned.end(), parameter.key) != pinned.end();
    if (!may_change_on_resume(parameter.key) || bends_schedule || other_bits)
      throw Error(Fault::usage, parameter.key,
                  fmt::format("{} differs from {} of {}, the run to be resumed", to_text(asked.get(parameter.key)),
                              to_text(config.get(parameter.key)), saved.parent_path().string()),
                  bends_schedule
                      ? "the learning rate follows from the number of rounds; start a new run with another --out"
                      : "resume without it, or start a new run with another --out");
    config.set(parameter.key, asked.get(parameter.key));
  }
  return config;
}

Config resumed_config(const std::filesystem::path& saved, const std::optional<std::filesystem::path>& file,
                      const Assignments& flags) {
  Config asked{full_schema()};  // without a preset: its values are not asked for
  const TomlText text = file ? read_toml(*file) : TomlText{};
  auto values = asked.read_toml_text(text.text, text.name);
  const auto method = std::get<std::string>(resolve_config(saved, {}).get(method_name_key));
  apply(asked, text.name, values, flags, find_preset(method_in(values, flags, method)));
  return resumed_config(saved, asked);
}

}  // namespace fedgrab
