#include "fedgrab/record/confusion_image.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fedgrab {
namespace {

constexpr size_t wanted_side = 320;

}  // namespace

EncodedImage confusion_image(const std::vector<std::vector<int64_t>>& confusion) {
  const size_t cell = std::max<size_t>(1, wanted_side / confusion.size()), side = cell * confusion.size();
  std::vector<uint8_t> pixels(side * side);
  for (size_t y = 0; y < side; ++y) {
    const auto& row = confusion[y / cell];
    const auto all = static_cast<double>(std::max<int64_t>(1, std::accumulate(row.begin(), row.end(), int64_t{0})));
    for (size_t x = 0; x < side; ++x)
      pixels[y * side + x] = static_cast<uint8_t>(std::lround(255 * (1 - static_cast<double>(row[x / cell]) / all)));
  }
  return encode_png(1, static_cast<int64_t>(side), static_cast<int64_t>(side), pixels);
}

}  // namespace fedgrab
