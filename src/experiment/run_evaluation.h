/// The deployed model on the test and validation images of a run: round by round, and with intervals at the end.
#pragma once

#include <vector>

#include "fedgrab/experiment/federation_run.h"
#include "fedgrab/record/last_evaluation.h"
#include "sample_images.h"

namespace fedgrab {

class RunEvaluation {
 public:
  /// `run` outlives it; `records`: keep what the run directory shows of the last evaluation.
  RunEvaluation(const FederationRun& run, bool records) : run_(run), records_(records) {}

  /// Fills accuracies, measures and losses.
  void evaluate(Engine& engine, const State& model, RoundRecord& record);
  /// [truth][answer] of the last evaluation; empty where nothing is kept, or there are too many classes.
  const std::vector<std::vector<int64_t>>& confusion() const { return last_.confusion; }
  /// What the run directory shows: with images.
  LastEvaluation last() const;

  /// Predictions for the test images with all that the report at the end needs.
  Predictions predict_test(Engine& engine, const State& model) const;
  std::vector<std::vector<int64_t>> confusion_of(const Predictions& test) const;
  MeasureReport measure(const Predictions& test) const;

 private:
  bool samples_wanted() const;

  const FederationRun& run_;
  bool records_;
  LastEvaluation last_;                // without samples
  std::vector<SampleChoice> samples_;  // of the same round
};

}  // namespace fedgrab
