#include "bootstrap.h"

#include <algorithm>
#include <cmath>

#include "fedgrab/core/random.h"

namespace fedgrab {
namespace {

/// Between two neighbours of the sorted values, as numpy.percentile has it.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::vector<int32_t> bootstrap_weights(int64_t images, uint64_t seed, int64_t number) {
  std::vector<int32_t> weights(static_cast<size_t>(images));
  Random random(seed, Purpose::bootstrap, 0, 0, static_cast<uint32_t>(number));
  for (int64_t i = 0; i < images; ++i) ++weights[random.below(static_cast<uint64_t>(images))];
  return weights;
}

std::optional<Interval> percentile_interval(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Interval{quantile(values, 0.025), quantile(values, 0.975)};
}

}  // namespace fedgrab
