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

bool is_ascii(char c) { return (static_cast<unsigned char>(c) & 0x80U) == 0; }

/// toml++ asks whether a character is a space after a backslash and after the line that one ends, and has no answer for
/// some that are no ASCII.
void check_escapes(std::string_view quoted, const std::string& file, Fault fault) {
  for (size_t at = quoted.find('\\'); at < quoted.size(); at = quoted.find('\\', at + 2)) {
    const size_t next = quoted.find_first_not_of(" \t\r\n", at + 1);
    if (next < quoted.size() && !is_ascii(quoted[next]))
      throw Error(fault, file, "has a character other than ASCII after a backslash in a text",
                  "write it before the backslash");
  }
}

/// toml++ reads a quote or a bracket within a word as a part of it, and what follows as no text.
void check_begins(std::string_view text, size_t at, bool value, const std::string& file, Fault fault) {
  const char before = text[at - 1];
  const bool begins = std::string_view(" \t\r\n=[{,").find(before) != std::string_view::npos ||
                      (before == '.' && !value);  // the next part of a key
  if (!begins)
    throw Error(fault, file, fmt::format("has {} within a word", text.substr(at, 1)), "the file must be valid TOML");
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
    bool value_before;
  };
  std::vector<Bracket> open;
  int base = 0;        // levels of the innermost bracket
  int levels = 0;      // of it and of the dots after it
  bool value = false;  // after the = of a key
  const auto inside = [&] { return !open.empty(); };
  const size_t start = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;  // what editors begin UTF-8 with
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const bool quote = c == '"' || c == '\'';
    if (at > start && (quote || (value && (c == '[' || c == '{')))) check_begins(text, at, value, file, fault);
    if (quote) {
      const size_t end = end_of_toml_string(text, at);
      if (c == '"') check_escapes(text.substr(at, end - at), file, fault);
      at = end;
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (!is_ascii(c) && at >= start)
      throw Error(fault, file, "has other characters than ASCII outside of texts and comments",
                  "the file must be valid TOML");
    if (c == '[' && !inside() && !value) check_header(text, at, file, fault);
    if (c == '=' && value) throw Error(fault, file, "has = within a value", "the file must be valid TOML");
    if (c == '=')
      value = true;
    else if (c == '\n' && !inside())
      value = false;
    if (c == '.') {
      ++levels;
    } else if (c == '[' || c == '{') {
      open.push_back({c == '[' ? ']' : '}', base, value});
      base = ++levels;
      value = value && c == '[';
    } else if ((c == ']' || c == '}') && inside()) {
      check_closing(c, open.back().closing, file, fault);
      levels = base = open.back().levels_before;
      value = open.back().value_before;
      open.pop_back();
    } else if (c == ',' || (c == '\n' && !inside())) {
      levels = base;
      value = value && !(inside() && open.back().closing == '}');
    }
    check_depth(levels, file, fault);
    ++at;
  }
  return text;
}

}  // namespace fedgrab
