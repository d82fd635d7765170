#include "fedgrab/core/error.h"

#include <algorithm>

namespace fedgrab {
namespace {

std::string one_line(const std::string& what, const std::string& why, const std::string& hint) {
  std::string text = what + ": " + why;
  if (!hint.empty()) text += " (" + hint + ")";
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return printable(text);
}

}  // namespace

std::string printable(std::string_view text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  const auto spell = [&](unsigned char byte) {
    out += "\\x";
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // the control characters U+0080 to U+009F
      spell(static_cast<unsigned char>(next));
      ++i;
    } else if ((byte < 0x20 && byte != '\n') || byte == 0x7F) {
      spell(byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

Error::Error(Fault fault, const std::string& what, const std::string& why, const std::string& hint)
    : std::runtime_error(one_line(what, why, hint)), fault_(fault) {}

}  // namespace fedgrab
