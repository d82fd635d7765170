#include "fedgrab/record/confusion_image.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace fedgrab {
namespace {

constexpr size_t wanted_side = 320;

std::string encode(const std::vector<uint8_t>& pixels, size_t side) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = static_cast<png_uint_32>(side);
  image.format = PNG_FORMAT_GRAY;
  png_alloc_size_t size = 0;  // the first call asks how much it takes
  std::string png;
  for (int call = 0; call < 2; ++call, png.resize(size))
    if (png_image_write_to_memory(&image, call == 0 ? nullptr : png.data(), &size, 0, pixels.data(), 0, nullptr) == 0)
      throw std::runtime_error(std::string("libpng: ") + image.message);
  return png;
}

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
  return {static_cast<int64_t>(side), static_cast<int64_t>(side), encode(pixels, side)};
}

}  // namespace fedgrab
