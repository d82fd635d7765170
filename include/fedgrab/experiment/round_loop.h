/// One run from configuration to summary.
#pragma once

#include <filesystem>
#include <string>

#include "fedgrab/core/communicator.h"
#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/run_directory.h"

namespace fedgrab {

struct RunOptions {
  RunDirectory directory;
  bool resume = false;
  bool quiet = false;
  std::string label = "round";  // of the progress line
};

/// Trains, evaluates, records and checkpoints until the last round or the end of patience. Throws Interrupted after the
/// last finished round has been saved.
Summary run_experiment(const Config& config, const RunOptions& options);
/// The same, with the clients distributed over ranks.
Summary run_experiment(const Config& config, const RunOptions& options, Communicator& ranks);

/// The directory for a new run: `wanted`, which must not hold one already, or else a fresh name under runs/.
RunDirectory new_run_directory(const std::string& wanted, const Settings& settings);

int64_t clients_per_round(int64_t clients, double participation);
/// The clients of a round, ascending.
std::vector<int64_t> choose_clients(int64_t clients, double participation, int64_t round, uint64_t seed);

}  // namespace fedgrab
