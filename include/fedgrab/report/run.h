/// A run as read from disk. Runs in progress, interrupted runs and runs of older versions have what was recorded.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fedgrab/record/last_evaluation.h"

namespace fedgrab {

enum class RunState { waiting, running, stopped, finished };

struct Run {
  std::string name;
  RunState state = RunState::waiting;
  std::map<std::string, std::string> config;  // dotted keys
  /// Keys that it set otherwise than the preset of its method. Runs of version 0.2.0 and older do not say.
  std::optional<std::set<std::string>> changed;
  int64_t rounds = 0;  // wanted
  std::vector<RoundRecord> records;
  std::optional<Summary> summary;  // of the records, once one is evaluated
  std::optional<Population> population;
  LastEvaluation evaluation;       // of the last round where it has ended, else of the last checkpoint
  Json measures = Json::object();  // of its summary: of the last model, and of the best where there is one
  std::optional<int64_t> peak_memory_bytes;

  /// By the pace of its last rounds, while it is running.
  std::optional<double> seconds_left() const;
  /// From the largest to the smallest.
  std::vector<size_t> classes_by_size() const;
};

struct NamedDirectory {
  std::string name;  // no two have the same
  RunDirectory directory;
};

/// Without reading it: whether it has ended, and whether a process writes it now.
RunState state_of(const RunDirectory& directory);

/// The folders that are runs, and the runs inside those that are not, in order of their names.
std::vector<NamedDirectory> find_runs(const std::vector<std::filesystem::path>& folders);

/// Throws a data Error naming the file that cannot be understood. What it gives fits together: every list by class has
/// an entry for each class.
Run read_run(const NamedDirectory& run);

/// All of them. One that cannot be read is left out with a warning; throws an Error where none is left, and for a
/// folder without any.
std::vector<Run> read_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace fedgrab
