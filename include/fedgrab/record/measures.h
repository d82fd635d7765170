/// Measures of a model on labelled images, with bootstrap intervals. docs/measures.md has the definitions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "fedgrab/record/json.h"
#include "fedgrab/record/measure.h"

namespace fedgrab {

/// What a model gave for some images. Views: they outlive a call, not more.
struct ModelOutputs {
  std::span<const int32_t> labels;
  std::span<const int32_t> answers;  // the class of the largest logit
  std::span<const float> logits;     // [image][class]; where empty, the measures of probabilities are left out
  int64_t classes = 0;

  int64_t images() const { return static_cast<int64_t>(labels.size()); }
  int64_t scores() const { return images() * classes; }
};

/// A number where it is defined, and its 95 % interval where there are resamples.
struct MeasuredValue {
  double value = 0;
  std::optional<Interval> interval;
};

struct MeasureReport {
  int64_t images = 0, resamples = 0;
  double specificity = 0;  // at which the sensitivity is taken
  std::map<Measure, MeasuredValue> values;
  /// By class, one against the rest. None where all images or no image are of the class; empty without logits.
  std::vector<std::optional<MeasuredValue>> auroc, sensitivity;

  MeasureValues plain() const;
};

struct BootstrapOptions {
  int64_t resamples = 1000;  // 0: no intervals
  uint64_t seed = 1;
  int workers = 1;
};

/// Of the measures of probabilities: above this many scores (images × classes), ranking takes longer than a round may.
constexpr int64_t most_scores_a_round = int64_t{1} << 20;
/// Above this many, logits are not kept at all.
constexpr int64_t most_scores = int64_t{1} << 28;

/// Every measure but the accuracy itself; those of probabilities where there are logits, all of them finite.
MeasureValues measures_of(const ModelOutputs& outputs, double specificity, int workers = 1);

/// With intervals: images are drawn with replacement, as many as there are. Above 2^32 scores in all resamples, the
/// measures that rank the images have none.
MeasureReport measures_with_intervals(const ModelOutputs& outputs, double specificity, const BootstrapOptions& options);

Json to_json(const MeasureValues& values);
/// Unknown names are ignored.
MeasureValues measures_from_json(const Json& json);
Json to_json(const MeasureReport& report);

}  // namespace fedgrab
