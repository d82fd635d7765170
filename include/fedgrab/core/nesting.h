/// Parsers recurse, and so do copies of what they return: a file of 20,000 nested brackets overflows the stack. These
/// functions look at the text before it is parsed.
#pragma once

#include <string>
#include <string_view>

#include "fedgrab/core/error.h"

namespace fedgrab {

/// Files of this project nest five deep.
constexpr int deepest_nesting = 64;

/// The text as it is, to be parsed. Throws Error(fault) naming the file where objects and lists nest deeper.
std::string_view shallow_json(std::string_view text, const std::string& file, Fault fault = Fault::data);

/// The same for TOML, where a dotted key nests as well. Also refuses headers of tables and
/// characters that toml++ would stumble over.
std::string_view shallow_toml(std::string_view text, const std::string& file, Fault fault = Fault::data);

}  // namespace fedgrab
