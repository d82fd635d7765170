#include <fmt/format.h>

#include "decode.h"

namespace fedgrab {
namespace {

constexpr std::string_view format = "PPM/PGM";

class Reader {
 public:
  Reader(std::span<const uint8_t> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  size_t left() const { return bytes_.size() - position_; }

  uint8_t byte() {
    if (left() == 0) unreadable(file_, format, "the file ends too early");
    return bytes_[position_++];
  }

  /// A decimal number, after white space and comments.
  uint32_t number() {
    skip_space();
    uint32_t value = 0;
    if (left() == 0 || !is_digit(bytes_[position_]))
      unreadable(file_, format, left() == 0 ? "the file ends too early" : "a number is missing");
    for (; left() > 0 && is_digit(bytes_[position_]); ++position_) {
      value = value * 10 + (bytes_[position_] - '0');
      if (value > 100'000'000) unreadable(file_, format, "a number is too large");
    }
    return value;
  }

 private:
  static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
  static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  void skip_space() {
    while (left() > 0) {
      if (bytes_[position_] == '#')
        while (left() > 0 && bytes_[position_] != '\n') ++position_;
      else if (is_space(bytes_[position_]))
        ++position_;
      else
        return;
    }
  }

  std::span<const uint8_t> bytes_;
  const std::string& file_;
  size_t position_ = 2;  // after the magic number
};

}  // namespace

Image decode_pnm(std::span<const uint8_t> bytes, const std::string& file, MaybeLevels levels) {
  const bool plain = bytes[1] == '2' || bytes[1] == '3';
  const bool colour = bytes[1] == '3' || bytes[1] == '6';
  Reader reader(bytes, file);
  const uint32_t width = reader.number();
  const uint32_t height = reader.number();
  const uint32_t most = reader.number();
  const auto memory = share_of_memory(file, format, height, width, colour ? 6 : 2);
  if (most == 0 || most > 65535) unreadable(file, format, fmt::format("its largest value is {}, not 1 to 65535", most));
  if (!plain) reader.byte();  // the one white space before the pixels

  const ImageShape shape{colour ? 3 : 1, height, width};
  const bool wide = most > 255;
  // Before memory is taken for pixels that the file cannot hold.
  const size_t least = static_cast<size_t>(shape.size()) * (plain || wide ? 2 : 1) - (plain ? 1 : 0);
  if (reader.left() < least) unreadable(file, format, "the file ends too early");

  std::vector<uint8_t> pixels(static_cast<size_t>(shape.size()));
  for (auto& pixel : pixels) {
    uint32_t value = plain ? reader.number() : reader.byte();
    if (!plain && wide) value = value << 8 | reader.byte();
    if (value > most) unreadable(file, format, fmt::format("a pixel of {} is above the largest value {}", value, most));
    pixel = wide && levels ? to_byte(value, *levels) : static_cast<uint8_t>((value * 255 + most / 2) / most);
  }
  Image image = to_planes(shape, pixels);
  image.memory = memory;
  return image;
}

}  // namespace fedgrab
