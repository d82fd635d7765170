#include "fedgrab/data/dataset.h"

#include <utility>

namespace fedgrab {

Images Images::own(ImageShape shape, std::vector<uint8_t> bytes) {
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return {shape, *owner, owner};
}

Normalisation imagenet_normalisation() { return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}; }

std::vector<int64_t> class_counts(std::span<const int32_t> labels, std::span<const int64_t> indices, int64_t classes) {
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  for (const int64_t i : indices) ++counts[static_cast<size_t>(labels[static_cast<size_t>(i)])];
  return counts;
}

std::vector<int64_t> class_counts(std::span<const int32_t> labels, int64_t classes) {
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  for (const int32_t label : labels) ++counts[static_cast<size_t>(label)];
  return counts;
}

}  // namespace fedgrab
