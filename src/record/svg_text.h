/// Text inside SVG.
#pragma once

#include <string>

namespace fedgrab {

inline std::string escape_svg(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&'                               ? "&amp;"
           : c == '<'                             ? "&lt;"
           : c == '>'                             ? "&gt;"
           : static_cast<unsigned char>(c) < 0x20 ? " "  // XML has no way to write most of these
                                                  : std::string(1, c);
  return out;
}

}  // namespace fedgrab
