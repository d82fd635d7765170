/// Expected calibration error: how far mean confidence and accuracy are apart, over bins of confidence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fedgrab {

constexpr size_t calibration_bins = 15;

/// One image: the probability of its answer, and whether that is right.
struct Answer {
  double confidence = 0;
  bool right = false;
};

/// Sum over 15 bins of equal width of (images in the bin / all) · |accuracy − mean confidence|. A bin has its upper
/// bound. `weights`: how often each image counts; all 0 gives 0.
double expected_calibration_error(std::span<const Answer> answers, std::span<const int32_t> weights);

}  // namespace fedgrab
