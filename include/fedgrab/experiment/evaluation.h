/// From predictions to accuracies and measures.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedgrab/engine/engine.h"
#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/schema.h"

namespace fedgrab {

/// `balanced` resolves groups = auto. Where the thresholds leave Many or Few empty although classes differ in size, the
/// groups are thirds of the classes by size. Throws a usage Error where lists leave a class out or name it twice.
Groups group_classes(const EvalParams& params, std::span<const int64_t> counts, bool balanced);

/// With the measures that need no probabilities.
Accuracy score(std::span<const int32_t> predictions, std::span<const int32_t> labels, const Groups& groups,
               int64_t classes);

/// Whether the logits of a split are few enough to be measured in every round, and at all.
bool measures_every_round(const Split& split, int64_t classes);
bool measures_probabilities(const Split& split, int64_t classes);

/// Views of predictions, which outlive it. Without logits where the engine was not asked for them.
ModelOutputs outputs_of(const Predictions& predictions, const Split& split, int64_t classes);

/// [truth][answer].
std::vector<std::vector<int64_t>> confusion_matrix(std::span<const int32_t> predictions,
                                                   std::span<const int32_t> labels, int64_t classes);

}  // namespace fedgrab
