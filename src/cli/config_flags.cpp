#include "config_flags.h"

#include <algorithm>
#include <fstream>

#include "fedgrab/core/error.h"
#include "fedgrab/core/progress.h"

namespace fedgrab::cli {
namespace {

/// --set takes every word up to the next flag: `--set train.lr=0.1 my.toml` means the file.
bool names_file(const std::string& text) { return text.find('=') == std::string::npos && text.ends_with(".toml"); }

bool has_sweep(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("[sweep") || line.starts_with("[[sweep")) return true;
  return false;
}

}  // namespace

Assignments ConfigFlags::assignments() const {
  Assignments all = short_forms;
  for (const auto& text : set) {
    if (text == config_file()) continue;
    const auto equals = text.find('=');
    if (equals == std::string::npos)
      throw Error(Fault::usage, "--set " + text, "not of the form key=value", "for example --set train.lr=0.1");
    all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

std::string ConfigFlags::config_file() const {
  const auto swallowed = std::find_if(set.begin(), set.end(), names_file);
  return file.empty() && swallowed != set.end() ? *swallowed : file;
}

std::optional<std::filesystem::path> ConfigFlags::config_path() const {
  const std::string path = config_file();
  if (path.empty()) return std::nullopt;
  if (has_sweep(path)) note(path + ": its [sweep] table is for `fedgrab sweep` and not used here");
  return path;
}

Config ConfigFlags::resolve() const { return resolve_config(config_path(), assignments()); }

Config ConfigFlags::resume(const RunDirectory& run) const {
  return resumed_config(run.config(), config_path(), assignments());
}

std::shared_ptr<ConfigFlags> add_config_flags(CLI::App& command) {
  auto flags = add_setting_flags(command);
  command.add_option("config", flags->file, "Configuration file (see `fedgrab init`)")->type_name("FILE.toml");
  return flags;
}

std::shared_ptr<ConfigFlags> add_setting_flags(CLI::App& command) {
  auto flags = std::make_shared<ConfigFlags>();
  const auto short_form = [&](const char* flag, const char* key, const char* help, const char* type) {
    command
        .add_option_function<std::string>(
            flag, [flags, key](const std::string& value) { flags->short_forms.emplace_back(key, value); }, help)
        ->type_name(type)
        ->take_last()
        ->group("Configuration");
  };
  short_form("--method", "method.name", "Method (preset); `--method help` lists all", "NAME");
  short_form("--objective", "objective.name", "Loss; `--objective help` lists all", "NAME");
  short_form("--data", "data.name", "Data set: shapes, cifar10, cifar100, idx, folder, list, imagenet-lt, …", "NAME");
  short_form("--data-path", "data.path", "Path of the data set", "PATH");
  short_form("--model", "model.name", "Backbone: cnn, resnet8, resnet32, resnet18, resnet34, resnet50, pfl-cnn",
             "NAME");
  short_form("--rounds", "train.rounds", "Communication rounds", "R");
  short_form("--clients", "partition.clients", "Number of clients", "N");
  short_form("--seed", "train.seed", "Seed of all random numbers", "S");
  short_form("--device", "engine.device", "Device: cpu or cuda", "cpu");
  command.add_option("--set", flags->set, "Set any parameter of `fedgrab params`; may be repeated")
      ->type_name("KEY=VALUE")
      ->group("Configuration");
  return flags;
}

void add_jobs_flag(CLI::App& command, int64_t& jobs) {
  command
      .add_option("--jobs", jobs,
                  "Runs at the same time, each a process with its share of engine.workers; on a GPU each uses the "
                  "memory that it needs, at most engine.memory")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

}  // namespace fedgrab::cli
