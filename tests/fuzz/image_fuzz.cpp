// PNG, JPEG, PPM and PGM files, and what is done to an image next.
#include "fedgrab/data/image.h"
#include "fuzz.h"

using namespace fedgrab;

namespace {

/// Announces many pixels. That costs time and no memory beyond the bound, as the tests of image_test say.
bool large(std::string_view bytes) {
  constexpr uint64_t most = 1U << 18U;
  const auto number = [&](size_t at, size_t length) {
    uint64_t value = 0;
    for (size_t i = at; i < at + length && i < bytes.size(); ++i) value = value << 8U | static_cast<uint8_t>(bytes[i]);
    return value;
  };
  if (bytes.starts_with("\x89PNG")) return number(16, 4) * number(20, 4) > most;
  if (!bytes.starts_with("\xFF\xD8")) return false;
  for (size_t at = 0; at + 9 < bytes.size(); ++at) {
    const auto marker = static_cast<uint8_t>(bytes[at + 1]);
    if (bytes[at] == '\xFF' && marker >= 0xC0 && marker <= 0xCF && number(at + 5, 2) * number(at + 7, 2) > most)
      return true;
  }
  return false;
}

void check(const Image& image) {
  if (static_cast<int64_t>(image.bytes.size()) != image.shape.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  if (large(bytes)) return -1;
  const auto file = fuzz::scratch().write("image", bytes);
  fuzz::value_or_error([&] {
    const Image image = read_image(file);
    check(image);
    check(resize(image, 5, 7));
  });
  fuzz::value_or_error([&] { check(with_channels(centre_square(read_image(file, 8), 8), 3)); });
  return 0;
}
