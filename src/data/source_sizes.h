/// The sizes of the files behind a data set.
#pragma once

#include <algorithm>
#include <vector>

#include "fedgrab/data/dataset.h"

namespace fedgrab {

/// By area; of no files, nothing.
inline std::optional<SourceSizes> source_sizes(std::vector<ImageShape> files) {
  if (files.empty()) return std::nullopt;
  std::stable_sort(files.begin(), files.end(),
                   [](const auto& a, const auto& b) { return a.height * a.width < b.height * b.width; });
  return SourceSizes{files.front(), files[files.size() / 2], files.back()};
}

}  // namespace fedgrab
