/// Counts by class, of which accuracy, balanced accuracy and macro F1 follow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedgrab/record/measure.h"

namespace fedgrab {

/// How often an image counts: 1, or the times a resample has drawn it.
using Weights = std::span<const int32_t>;

/// Adds accuracy, balanced accuracy and macro F1. The balanced accuracy is a mean over the classes with an image,
/// macro F1 over those with an image or an answer.
void add_class_measures(MeasureValues& values, std::span<const int32_t> labels, std::span<const int32_t> answers,
                        Weights weights, int64_t classes);

}  // namespace fedgrab
