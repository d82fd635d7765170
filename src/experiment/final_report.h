/// What a run that has ended reports: summary.json.
#pragma once

#include <filesystem>
#include <memory>

#include "run_evaluation.h"

namespace fedgrab {

struct FinishedRun {
  const FederationRun& run;
  const Config& config;
  Communicator& ranks;
  const RunEvaluation& evaluation;
  const std::vector<RoundRecord>& records;
  const State& deployed;  // of the last round
  const TensorMap& server;
  std::filesystem::path best;  // the file with the best model, where a validation split chose one
};

/// A collective call. `engine` ends with it: another model may need its memory.
Summary final_report(const FinishedRun& finished, std::unique_ptr<Engine> engine);

}  // namespace fedgrab
