#include "exif.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace fedgrab {
namespace {

using Bytes = std::span<const uint8_t>;

/// Numbers of 2 and 4 bytes at a place, which must be inside.
class Reader {
 public:
  Reader(Bytes bytes, bool big_endian) : bytes_(bytes), big_(big_endian) {}
  bool holds(size_t at, size_t count) const { return at <= bytes_.size() && bytes_.size() - at >= count; }
  uint32_t u16(size_t at) const { return number(at, 2); }
  uint32_t u32(size_t at) const { return number(at, 4); }

 private:
  uint32_t number(size_t at, size_t count) const {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) value = value << 8U | bytes_[at + (big_ ? i : count - 1 - i)];
    return value;
  }

  Bytes bytes_;
  bool big_;
};

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin(),
                                                   [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

constexpr std::string_view exif_mark("Exif\0\0", 6);

/// Segments of a marker, two bytes of length and the content, until the coded pixels begin.
std::optional<Bytes> exif_of_jpeg(Bytes file) {
  const Reader reader(file, true);
  for (size_t at = 2; reader.holds(at, 4) && file[at] == 0xFF;) {
    const uint8_t marker = file[at + 1];
    if (marker == 0xFF) {  // fill bytes may stand before a marker
      ++at;
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) break;
    const size_t length = reader.u16(at + 2);
    if (length < 2 || !reader.holds(at + 2, length)) break;
    const Bytes content = file.subspan(at + 4, length - 2);
    if (marker == 0xE1 && starts_with(content, exif_mark)) return content.subspan(exif_mark.size());
    at += 2 + length;
  }
  return std::nullopt;
}

/// Chunks: four bytes of length, the name, the content, a checksum.
std::optional<Bytes> exif_of_png(Bytes file) {
  const Reader reader(file, true);
  for (size_t at = 8; reader.holds(at, 12);) {
    const size_t length = reader.u32(at);
    if (!reader.holds(at + 8, length)) break;
    if (starts_with(file.subspan(at + 4), "eXIf")) return file.subspan(at + 8, length);
    at += 12 + length;
  }
  return std::nullopt;
}

/// Chunks: the name, four bytes of length, the content, filled up to an even length.
std::optional<Bytes> exif_of_webp(Bytes file) {
  const Reader reader(file, false);
  for (size_t at = 12; reader.holds(at, 8);) {
    const size_t length = reader.u32(at + 4);
    if (!reader.holds(at + 8, length)) break;
    if (starts_with(file.subspan(at), "EXIF")) {
      const Bytes content = file.subspan(at + 8, length);
      return starts_with(content, exif_mark) ? content.subspan(exif_mark.size()) : content;
    }
    at += 8 + length + length % 2;
  }
  return std::nullopt;
}

std::optional<Bytes> exif_of(Bytes file) {
  if (starts_with(file, "\xFF\xD8")) return exif_of_jpeg(file);
  if (starts_with(file, "\x89PNG")) return exif_of_png(file);
  if (starts_with(file, "RIFF")) return exif_of_webp(file);
  return std::nullopt;
}

}  // namespace

int exif_orientation(Bytes file) {
  const auto exif = exif_of(file);
  if (!exif) return 1;
  const bool big = starts_with(*exif, "MM");
  if (!big && !starts_with(*exif, "II")) return 1;
  const Reader reader(*exif, big);
  if (!reader.holds(0, 8) || reader.u16(2) != 42) return 1;
  const size_t directory = reader.u32(4);
  if (!reader.holds(directory, 2)) return 1;
  constexpr size_t entry = 12;  // tag, type, count, value
  constexpr uint32_t orientation = 0x0112, short_number = 3;
  for (size_t i = 0, at = directory + 2; i < reader.u16(directory) && reader.holds(at, entry); ++i, at += entry) {
    if (reader.u16(at) != orientation || reader.u16(at + 2) != short_number) continue;
    const uint32_t value = reader.u16(at + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const int64_t height = image.shape.height, width = image.shape.width;
  const int64_t right = width - 1, bottom = (height - 1) * width;
  /// Where the first pixel of the upright image is, and where the next one in its row and column.
  struct Walk {
    int64_t first, across, down;
  };
  const std::array<Walk, 7> walks{Walk{right, -1, width}, {bottom + right, -1, -width}, {bottom, 1, -width},
                                  Walk{0, width, 1},      {bottom, -width, 1},          {bottom + right, -width, -1},
                                  Walk{right, width, -1}};
  const auto [first, across, down] = walks[static_cast<size_t>(orientation - 2)];
  Image turned{image.shape, std::vector<uint8_t>(image.bytes.size()), image.reduced, image.memory};
  if (orientation >= 5) std::swap(turned.shape.height, turned.shape.width);
  auto out = turned.bytes.begin();
  for (int64_t channel = 0; channel < image.shape.channels; ++channel) {
    const uint8_t* plane = image.bytes.data() + channel * height * width;
    for (int64_t y = 0; y < turned.shape.height; ++y)
      for (int64_t x = 0; x < turned.shape.width; ++x) *out++ = plane[first + y * down + x * across];
  }
  return turned;
}

}  // namespace fedgrab
