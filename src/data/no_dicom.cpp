#include "decode.h"

namespace fedgrab {

Image decode_dicom(std::span<const uint8_t> /*bytes*/, const std::string& file, MaybeLevels /*levels*/) {
  not_built_in(file, "DICOM", "libdcmtk-dev");
}

}  // namespace fedgrab
