/// Intervals by the bootstrap: images drawn with replacement, as many as there are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fedgrab/record/measure.h"

namespace fedgrab {

/// How often each image is in resample `number`: a function of (seed, number) alone.
std::vector<int32_t> bootstrap_weights(int64_t images, uint64_t seed, int64_t number);

/// The middle 95 % of the values, interpolated between neighbours; none where there is no value.
std::optional<Interval> percentile_interval(std::vector<double> values);

}  // namespace fedgrab
