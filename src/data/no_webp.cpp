#include "decode.h"

namespace fedgrab {

Image decode_webp(std::span<const uint8_t> /*bytes*/, const std::string& file) {
  not_built_in(file, "WebP", "libwebp-dev");
}

}  // namespace fedgrab
