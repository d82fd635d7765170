#include "fedgrab/record/encoded_image.h"

#include <png.h>

#include <stdexcept>

namespace fedgrab {

EncodedImage encode_png(int64_t channels, int64_t height, int64_t width, std::span<const uint8_t> pixels) {
  if (static_cast<int64_t>(pixels.size()) != channels * height * width)
    throw std::invalid_argument("an image has another number of pixels than its size says");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;  // the first call asks how much it takes
  std::string png;
  for (int call = 0; call < 2; ++call, png.resize(size))
    if (png_image_write_to_memory(&image, call == 0 ? nullptr : png.data(), &size, 0, pixels.data(), 0, nullptr) == 0)
      throw std::runtime_error(std::string("libpng: ") + image.message);
  return {width, height, png};
}

}  // namespace fedgrab
