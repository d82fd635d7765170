#include "calibration.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace fedgrab {
namespace {

/// Bin b reaches from above b / 15 to (b + 1) / 15.
size_t bin_of(double confidence) {
  constexpr auto bins = static_cast<double>(calibration_bins);
  auto bin = static_cast<size_t>(std::clamp(std::floor(confidence * bins), 0.0, bins - 1));
  if (bin > 0 && confidence <= static_cast<double>(bin) / bins) --bin;
  return bin;
}

}  // namespace

double expected_calibration_error(std::span<const Answer> answers, std::span<const int32_t> weights) {
  std::array<double, calibration_bins> confidence{}, right{};
  int64_t all = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const size_t bin = bin_of(answers[i].confidence);
    confidence.at(bin) += weights[i] * answers[i].confidence;
    if (answers[i].right) right.at(bin) += weights[i];
    all += weights[i];
  }
  double error = 0;
  for (size_t b = 0; b < calibration_bins; ++b) error += std::abs(right.at(b) - confidence.at(b));
  return all == 0 ? 0 : error / static_cast<double>(all);
}

}  // namespace fedgrab
