#include "ranking.h"

#include <algorithm>
#include <utility>

namespace fedgrab {

Ranking::Ranking(std::span<const double> scores, std::span<const int32_t> labels, int32_t positive) {
  std::vector<std::pair<double, uint32_t>> order(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) order[i] = {-scores[i], static_cast<uint32_t>(i)};
  std::sort(order.begin(), order.end());
  places_.reserve(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t image = order[i].second;
    const bool last = i + 1 == order.size() || order[i + 1].first != order[i].first;
    places_.push_back({image & 0x3FFFFFFFU, labels[image] == positive ? 1U : 0U, last ? 1U : 0U});
  }
}

std::optional<RocPoint> Ranking::roc(std::span<const int32_t> weights, double specificity) const {
  int64_t counts[2]{};  // of the rest, of the class
  for (const Place place : places_) counts[place.positive] += weights[place.image];
  const auto [negatives, positives] = counts;
  if (negatives == 0 || positives == 0) return std::nullopt;
  // A share such as 1 of 10 must pass at 0.9, whatever the last digit of 1 - 0.9 is.
  const double allowed = static_cast<double>(negatives) * (1 - specificity + 1e-9);
  int64_t above[2]{}, tied[2]{};
  int64_t twice_area = 0, found = 0;  // the area under the curve, counted in halves of a pair
  for (const Place place : places_) {
    tied[place.positive] += weights[place.image];
    if (place.last_of_ties == 0) continue;
    twice_area += tied[0] * (2 * above[1] + tied[1]);
    for (int side = 0; side < 2; ++side) above[side] += std::exchange(tied[side], 0);
    if (static_cast<double>(above[0]) <= allowed) found = above[1];
  }
  return RocPoint{
      static_cast<double>(twice_area) / (2 * static_cast<double>(negatives) * static_cast<double>(positives)),
      static_cast<double>(found) / static_cast<double>(positives)};
}

}  // namespace fedgrab
