/// Which model of a run directory a command uses.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "fedgrab/experiment/checkpoint.h"

namespace fedgrab::cli {

struct ModelChoice {
  std::string path;
  bool last = false;

  RunModel which() const { return last ? RunModel::last : RunModel::best; }
};

/// The run directory that a path names or lies in.
std::optional<RunDirectory> run_of(const std::filesystem::path& path);

/// --last; the path is an argument of the command.
void add_last_flag(CLI::App& command, ModelChoice& choice);

/// On stderr, where `path` names a run directory: which of its models was read.
void note_model(const ModelChoice& choice, const LoadedModel& loaded);

}  // namespace fedgrab::cli
