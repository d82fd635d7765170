#include "decode.h"

namespace fedgrab {

Image decode_tiff(std::span<const uint8_t> /*bytes*/, const std::string& file, MaybeLevels /*levels*/) {
  not_built_in(file, "TIFF", "libtiff-dev");
}

}  // namespace fedgrab
