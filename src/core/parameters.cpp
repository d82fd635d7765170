#include "fedgrab/core/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

template <class... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overload(Cases...) -> Overload<Cases...>;

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // TOML keeps numbers and integers apart
  return text;
}

template <class T, class Format>
std::string list(const std::vector<T>& items, Format format) {
  std::vector<std::string> parts;
  parts.reserve(items.size());
  for (const auto& item : items) parts.push_back(format(item));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

std::string to_text(const Value& value) {
  return std::visit(
      Overload{
          [](bool b) { return std::string(b ? "true" : "false"); },
          [](int64_t i) { return fmt::format("{}", i); },
          [](double d) { return number(d); },
          [](const std::string& s) { return quote(s); },
          [](const std::vector<int64_t>& v) { return list(v, [](int64_t i) { return fmt::format("{}", i); }); },
          [](const std::vector<double>& v) { return list(v, number); },
          [](const std::vector<std::string>& v) { return list(v, quote); },
      },
      value);
}

std::string type_name(const Value& value) {
  static const char* const names[] = {"true or false",    "integer",         "number",       "text",
                                      "list of integers", "list of numbers", "list of texts"};
  return names[value.index()];
}

void Parameter::check(const Value& value) const {
  const auto check_number = [&](double x) {
    if (std::isnan(x) || x < min || x > max)
      throw Error(Fault::usage, key, fmt::format("{} is out of bounds", to_text(value)), "allowed: " + bounds());
  };
  const auto check_text = [&](const std::string& text) {
    if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return;
    const bool number = std::holds_alternative<int64_t>(value);  // no number is a misspelling of another
    const std::string near = number ? "" : nearest(text, choices);
    throw Error(Fault::usage, key, fmt::format("unknown value \"{}\"", text),
                (near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near)) + bounds());
  };
  std::visit(Overload{
                 [](bool) {},
                 [&](int64_t i) {
                   check_number(static_cast<double>(i));
                   check_text(std::to_string(i));
                 },
                 [&](double d) { check_number(d); },
                 [&](const std::string& s) { check_text(s); },
                 [&](const std::vector<int64_t>& v) {
                   for (const int64_t i : v) check_number(static_cast<double>(i));
                 },
                 [&](const std::vector<double>& v) {
                   for (const double d : v) check_number(d);
                 },
                 [&](const std::vector<std::string>& v) {
                   for (const auto& s : v) check_text(s);
                 },
             },
             value);
}

std::string Parameter::bounds() const {
  if (!choices.empty()) return fmt::format("one of {}", fmt::join(choices, ", "));
  if (std::isinf(min) && std::isinf(max)) return "";
  if (std::isinf(max)) return fmt::format("at least {}", min);
  if (std::isinf(min)) return fmt::format("at most {}", max);
  return fmt::format("{} to {}", min, max);
}

const Parameter* Schema::lookup(std::string_view key) const {
  const std::string group_name = std::string(key) + ".name";
  for (const auto& parameter : parameters_)
    if (parameter.key == key || parameter.key == group_name) return &parameter;
  return nullptr;
}

const Parameter& Schema::find(std::string_view key) const {
  if (const Parameter* found = lookup(key)) return *found;
  std::vector<std::string> keys;
  for (const auto& parameter : parameters_) keys.push_back(parameter.key);
  std::string near = nearest(key, keys);
  if (near.empty()) {  // a bare word may be the last part of a key
    const std::string tail = fmt::format(".{}", key);
    const auto same_tail = std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.ends_with(tail); });
    if (same_tail != keys.end()) near = *same_tail;
  }
  throw Error(Fault::usage, std::string(key), "unknown parameter",
              near.empty() ? "`fedgrab params` lists them all" : fmt::format("did you mean {}?", near));
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace fedgrab
