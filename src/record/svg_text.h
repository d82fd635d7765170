/// Text inside SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fedgrab {

/// Bytes of the UTF-8 character at the start of a text; 0 where there is none.
inline size_t character_at(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text.front());
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) return 0;
  return length;
}

inline std::string escape_svg(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = character_at(text);
    const char c = text.front();
    out += length == 0                      ? "\uFFFD"  // a file name may be any bytes, XML may not
           : c == '&'                       ? "&amp;"
           : c == '<'                       ? "&lt;"
           : c == '>'                       ? "&gt;"
           : static_cast<uint8_t>(c) < 0x20 ? " "  // XML has no way to write most of these
                                            : std::string(text.substr(0, length));
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace fedgrab
