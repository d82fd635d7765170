/// Many runs, a few at a time. Finished runs are not repeated, and interrupted runs continue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/run_directory.h"

namespace fedgrab {

struct Job {
  std::string name;
  Config config;
  RunDirectory directory;
  std::vector<std::string> command;  // the same run, as arguments of the program
};

struct JobOptions {
  /// Runs at once, each a process of `program` that gets its share of the engine's workers. After an interruption of
  /// any of them, the same call continues. Without a program: one after the other in this process.
  int64_t at_once = 1;
  std::filesystem::path program;
  bool quiet = false;
};

/// Throws a usage Error where the run that is there was made with other settings than these, its rounds aside.
void check_settings(const Job& job);
/// Whether a run is there and was made with these settings, its rounds aside.
bool has_these_settings(const Job& job);

/// The summary of a finished run. Throws a data Error where it is damaged.
Json read_result(const Job& job);

/// Whether the run is there with all of its rounds. Throws a usage Error where one that was begun has other settings
/// than those asked for, or was run for longer.
bool complete(const Job& job);

/// Runs what is missing, in order, and calls `ended` after each job, whether it was run or found: the error is empty
/// where it succeeded. A job that fails leaves the others alone. Throws Interrupted when all running ones have saved.
void run_jobs(const std::vector<Job>& jobs, const JobOptions& options,
              const std::function<void(size_t job, const std::string& error)>& ended);

}  // namespace fedgrab
