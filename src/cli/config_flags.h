/// The flags that choose and change a configuration, the same in every command that takes one.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/run_directory.h"

namespace fedgrab::cli {

struct ConfigFlags {
  std::string file;
  std::vector<std::string> set;
  /// Short forms, by the parameter they stand for.
  Assignments short_forms;

  /// What the user gave, as assignments in order: short forms, then --set.
  Assignments assignments() const;
  /// The configuration file, "" for none.
  std::string config_file() const;
  Config resolve() const;
  /// The configuration of the existing run, with the changes of the user.
  Config resume(const RunDirectory& run) const;

 private:
  std::optional<std::filesystem::path> config_path() const;
};

/// Adds the short forms and --set to a command.
std::shared_ptr<ConfigFlags> add_setting_flags(CLI::App& command);
/// The same and FILE.toml.
std::shared_ptr<ConfigFlags> add_config_flags(CLI::App& command);

/// Adds --jobs.
void add_jobs_flag(CLI::App& command, int64_t& jobs);

}  // namespace fedgrab::cli
