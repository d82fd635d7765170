/// The flags that choose and change a configuration, the same in every command that takes one.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "fedgrab/experiment/settings.h"

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
};

/// Adds FILE.toml, the short forms and --set to a command.
std::shared_ptr<ConfigFlags> add_config_flags(CLI::App& command);

}  // namespace fedgrab::cli
