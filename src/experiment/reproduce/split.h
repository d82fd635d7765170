#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace fedgrab {

/// The parts between separators; "a," has an empty second one.
inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream rest(text);
  for (std::string part; std::getline(rest, part, separator);) parts.push_back(part);
  if (text.ends_with(separator)) parts.emplace_back();
  return parts;
}

}  // namespace fedgrab
