/// One run from configuration to summary.
#pragma once

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

}  // namespace fedgrab
