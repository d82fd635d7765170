/// Which of many items are drawn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace fedgrab {

struct Thinning {
  std::vector<size_t> kept;  // ascending; the first and the last are among them
  size_t every = 1;          // items that a kept one stands for
};

/// Every n-th of `count` items, so that about `most` are left.
inline Thinning thin(size_t count, size_t most) {
  Thinning thinning;
  if (count == 0) return thinning;
  thinning.every = std::max<size_t>(1, (count + most - 1) / most);
  for (size_t i = 0; i < count; i += thinning.every) thinning.kept.push_back(i);
  if (thinning.kept.back() != count - 1) thinning.kept.push_back(count - 1);
  return thinning;
}

}  // namespace fedgrab
