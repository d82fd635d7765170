/// When a run has reached a target: a single lucky evaluation does not count.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace fedgrab {

constexpr size_t evaluations_in_a_row = 2;

/// Entry i: what evaluation i and the one after it both reached. The last one has none, unless it is the only one.
inline std::vector<double> sustained(std::span<const double> values) {
  const size_t row = std::min(values.size(), evaluations_in_a_row);
  std::vector<double> lowest;
  for (size_t i = 0; row > 0 && i + row <= values.size(); ++i)
    lowest.push_back(*std::min_element(values.begin() + static_cast<std::ptrdiff_t>(i),
                                       values.begin() + static_cast<std::ptrdiff_t>(i + row)));
  return lowest;
}

}  // namespace fedgrab
