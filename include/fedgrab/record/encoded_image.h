/// Pixels as a PNG.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fedgrab {

struct EncodedImage {
  int64_t width = 0, height = 0;
  std::string png;
};

/// `pixels` are grey (1 channel) or red, green, blue (3 channels), row by row.
EncodedImage encode_png(int64_t channels, int64_t height, int64_t width, std::span<const uint8_t> pixels);

}  // namespace fedgrab
