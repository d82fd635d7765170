/// Which samples of a class are kept for testing where a data set does not say.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fedgrab/core/random.h"

namespace fedgrab {

/// True for those to test on. Of two samples and more, at least one is on either side; a lone one is for training.
inline std::vector<bool> test_share(size_t count, double fraction, uint64_t seed, size_t label) {
  const auto all = static_cast<int64_t>(count);
  const auto tested = std::min(std::max<int64_t>(std::llround(static_cast<double>(count) * fraction), 1), all - 1);
  const auto order = permutation(all, Random(seed, Purpose::split, static_cast<uint32_t>(label)));
  std::vector<bool> for_test(count);
  for (int64_t i = 0; i < tested; ++i) for_test[static_cast<size_t>(order[static_cast<size_t>(i)])] = true;
  return for_test;
}

}  // namespace fedgrab
