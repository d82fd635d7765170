/// Parsers are recursive, and so are copies of their results: a file of 20,000 nested brackets overflows the stack.
/// These functions check the text before it is parsed.
#pragma once

#include <string>
#include <string_view>

#include "fedgrab/core/error.h"

namespace fedgrab {

/// Files of this project nest five deep.
constexpr int deepest_nesting = 64;

/// The text as it is, to be parsed. Throws Error(fault) naming the file where objects and lists nest deeper.
std::string_view shallow_json(std::string_view text, const std::string& file, Fault fault = Fault::data);

/// The same for TOML, where a dotted key nests as well. Also refuses headers of tables and characters that toml++
/// cannot parse safely.
std::string_view shallow_toml(std::string_view text, const std::string& file, Fault fault = Fault::data);

}  // namespace fedgrab
