#include "fedgrab/core/nesting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace fedgrab {
namespace {

/// After the string that starts at `at` with this mark; the end of the text where it is not closed.
size_t end_of_string(std::string_view text, size_t at, std::string_view mark, bool escapes) {
  for (at += mark.size(); at < text.size(); ++at) {
    if (escapes && text[at] == '\\')
      ++at;
    else if (text.substr(at).starts_with(mark))
      return at + mark.size();
  }
  return text.size();
}

size_t end_of_toml_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const bool escapes = quote == '"';
  const std::string three(3, quote);
  if (!text.substr(at).starts_with(three)) return end_of_string(text, at, std::string_view(&quote, 1), escapes);
  size_t end = end_of_string(text, at, three, escapes);
  for (int more = 0; more < 2 && end < text.size() && text[end] == quote; ++more)
    ++end;  // quotes before the last three
  return end;
}

void check_depth(int depth, const std::string& file, Fault fault) {
  if (depth > deepest_nesting)
    throw Error(fault, file, fmt::format("is nested more than {} levels deep", deepest_nesting));
}

/// toml++ assumes that a key begins after the brackets of a table's header, and aborts or worse where it does not. An
/// empty header and the end of the text it finds itself.
void check_header(std::string_view text, size_t at, const std::string& file, Fault fault) {
  const auto skip_spaces = [&] { at = std::min(text.find_first_not_of(" \t", at), text.size()); };
  ++at;
  skip_spaces();
  if (at < text.size() && text[at] == '[') {
    ++at;
    skip_spaces();
  }
  if (at == text.size() || std::isalnum(static_cast<unsigned char>(text[at])) != 0 ||
      std::string_view("_-\"']").find(text[at]) != std::string_view::npos)
    return;
  throw Error(fault, file, fmt::format("\"{}\" begins no name of a table", text.substr(at, 1)),
              "the file must be valid TOML");
}

/// toml++ assumes that a value begins wherever an array is not closed by its own bracket.
void check_closing(char found, char expected, const std::string& file, Fault fault) {
  if (found != expected)
    throw Error(fault, file, fmt::format("has \"{}\" where \"{}\" is expected", found, expected),
                "the file must be valid TOML");
}

}  // namespace

std::string_view shallow_json(std::string_view text, const std::string& file, Fault fault) {
  int depth = 0;
  for (size_t at = text.find_first_of("\"[]{}"); at < text.size(); at = text.find_first_of("\"[]{}", at)) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at, "\"", true);
      continue;
    }
    depth += c == '[' || c == '{' ? 1 : -1;
    check_depth(depth, file, fault);
    ++at;
  }
  return text;
}

std::string_view shallow_toml(std::string_view text, const std::string& file, Fault fault) {
  struct Bracket {
    char closing;
    int levels_before;
  };
  std::vector<Bracket> open;
  int base = 0;        // levels of the innermost bracket
  int levels = 0;      // of it and of the dots after it
  bool value = false;  // after the = of this line
  const auto inside = [&] { return !open.empty(); };
  const size_t start = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;  // what editors begin UTF-8 with
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      if (at > start && std::string_view(" \t\r\n=[{,.").find(text[at - 1]) == std::string_view::npos)
        throw Error(fault, file, "has a quote within a word", "the file must be valid TOML");
      at = end_of_toml_string(text, at);
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if ((static_cast<unsigned char>(c) & 0x80U) != 0 && at >= start)
      throw Error(fault, file, "has other characters than ASCII outside of texts and comments",
                  "the file must be valid TOML");
    if (c == '[' && !inside() && !value) check_header(text, at, file, fault);
    if (c == '=')
      value = true;
    else if (c == '\n' && !inside())
      value = false;
    if (c == '.') {
      ++levels;
    } else if (c == '[' || c == '{') {
      open.push_back({c == '[' ? ']' : '}', base});
      base = ++levels;
    } else if ((c == ']' || c == '}') && inside()) {
      check_closing(c, open.back().closing, file, fault);
      levels = base = open.back().levels_before;
      open.pop_back();
    } else if (c == ',' || (c == '\n' && !inside())) {
      levels = base;
    }
    check_depth(levels, file, fault);
    ++at;
  }
  return text;
}

}  // namespace fedgrab
