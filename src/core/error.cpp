#include "fedgrab/core/error.h"

#include <algorithm>

namespace fedgrab {
namespace {

std::string one_line(const std::string& what, const std::string& why, const std::string& hint) {
  std::string text = what + ": " + why;
  if (!hint.empty()) text += " (" + hint + ")";
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

Error::Error(Fault fault, const std::string& what, const std::string& why, const std::string& hint)
    : std::runtime_error(one_line(what, why, hint)), fault_(fault) {}

}  // namespace fedgrab
