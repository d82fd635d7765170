#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <type_traits>

#include "fedgrab/core/error.h"
#include "fedgrab/core/nesting.h"
#include "fedgrab/core/parameters.h"

namespace fedgrab {
namespace {

[[noreturn]] void wrong_type(const Parameter& parameter, std::string_view given) {
  throw Error(Fault::usage, parameter.key, fmt::format("\"{}\" is not a valid value", given),
              "expected: " + type_name(parameter.fallback));
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<std::string_view> split_list(std::string_view text) {
  text = trim(text);
  if (text.starts_with('[') && text.ends_with(']')) text = trim(text.substr(1, text.size() - 2));
  std::vector<std::string_view> items;
  while (!text.empty()) {
    const auto comma = text.find(',');
    items.push_back(trim(text.substr(0, comma)));
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return items;
}

std::string unquote(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return std::string(text);
}

template <class T>
T parse_number(const Parameter& parameter, std::string_view text) {
  T value{};
  const auto* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || stop != end) wrong_type(parameter, text);
  return value;
}

bool parse_bool(const Parameter& parameter, std::string_view text) {
  for (const std::string_view yes : {"true", "1", "yes", "on"})
    if (text == yes) return true;
  for (const std::string_view no : {"false", "0", "no", "off"})
    if (text == no) return false;
  wrong_type(parameter, text);
}

Value parse(const Parameter& parameter, std::string_view text) {
  const auto list_of = [&](auto parse_item) {
    std::vector<decltype(parse_item(text))> items;
    for (const auto item : split_list(text)) items.push_back(parse_item(item));
    return items;
  };
  const auto integer = [&](std::string_view item) { return parse_number<int64_t>(parameter, item); };
  const auto real = [&](std::string_view item) { return parse_number<double>(parameter, item); };
  switch (parameter.fallback.index()) {
    case 0: return parse_bool(parameter, text);
    case 1: return integer(text);
    case 2: return real(text);
    case 3: return unquote(text);
    case 4: return list_of(integer);
    case 5: return list_of(real);
    default: return list_of(unquote);
  }
}

/// Lists item by item: toml++ computes the width of one with small numbers in a way that is undefined.
std::string spelled(const toml::node& node) {
  if (const auto text = node.value<std::string>()) return *text;
  if (const auto* array = node.as_array()) {
    std::vector<std::string> items;
    for (const auto& item : *array) items.push_back(item.is_string() ? to_text(Value(spelled(item))) : spelled(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (const auto* number = node.as_floating_point()) return to_text(Value(number->get()));
  if (node.is_table()) return "{...}";
  std::ostringstream shown;
  node.visit([&](const auto& concrete) { shown << concrete; });
  return shown.str();
}

// Strict kinds, except that an integer may stand for a number, and a scalar and a list of one for each other.
template <class T>
T convert_scalar(const Parameter& parameter, const toml::node& node) {
  if (const auto* array = node.as_array(); array != nullptr && array->size() == 1)
    return convert_scalar<T>(parameter, (*array)[0]);
  std::optional<T> value = node.value_exact<T>();
  if constexpr (std::is_same_v<T, double>)
    if (node.is_integer()) value = node.value<double>();
  if (!value) wrong_type(parameter, spelled(node));
  return *value;
}

template <class T>
std::vector<T> convert_list(const Parameter& parameter, const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return {convert_scalar<T>(parameter, node)};
  std::vector<T> items;
  for (const auto& item : *array) items.push_back(convert_scalar<T>(parameter, item));
  return items;
}

Value convert(const Parameter& parameter, const toml::node& node) {
  switch (parameter.fallback.index()) {
    case 0: return convert_scalar<bool>(parameter, node);
    case 1: return convert_scalar<int64_t>(parameter, node);
    case 2: return convert_scalar<double>(parameter, node);
    case 3: return convert_scalar<std::string>(parameter, node);
    case 4: return convert_list<int64_t>(parameter, node);
    case 5: return convert_list<double>(parameter, node);
    default: return convert_list<std::string>(parameter, node);
  }
}

using Values = std::vector<std::pair<std::string, Value>>;

void read_table(const Schema& schema, const toml::table& table, const std::string& prefix, Values& values) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix.empty() ? std::string(name.str()) : prefix + "." + std::string(name.str());
    if (const auto* inner = node.as_table())
      read_table(schema, *inner, key, values);
    else
      values.emplace_back(key, schema.contains(key) ? convert(schema.find(key), node) : Value(spelled(node)));
  }
}

std::string group_of(const std::string& key) { return key.substr(0, key.rfind('.')); }

}  // namespace

void Config::set(std::string_view key, Value value) {
  const Parameter& parameter = schema_.find(key);
  if (value.index() != parameter.fallback.index()) wrong_type(parameter, to_text(value));
  parameter.check(value);
  values_.insert_or_assign(parameter.key, std::move(value));
}

void Config::set_text(std::string_view key, std::string_view text) {
  const Parameter& parameter = schema_.find(key);
  set(parameter.key, parse(parameter, trim(text)));
}

std::vector<std::pair<std::string, Value>> Config::read_toml_text(std::string_view text,
                                                                  const std::string& name) const {
  try {
    toml::table table = toml::parse(shallow_toml(text, name, Fault::usage), name);
    // Read by others: the grid over this configuration, what is made of its runs, what a run changed of its preset.
    for (const char* other : {"sweep", "reproduce", "preset"}) table.erase(other);
    Values values;
    read_table(schema_, table, "", values);
    return values;
  } catch (const toml::parse_error& error) {
    throw Error(Fault::usage, fmt::format("{}:{}", name, error.source().begin.line), std::string(error.description()),
                "the file must be valid TOML");
  } catch (const Error& error) {
    throw Error(error.fault(), name, error.what());
  }
}

void Config::load_toml_text(std::string_view text, const std::string& name) {
  const auto values = read_toml_text(text, name);
  try {
    for (const auto& [key, value] : values) set(key, value);
  } catch (const Error& error) {
    throw Error(error.fault(), name, error.what());
  }
}

const Value& Config::get(std::string_view key) const {
  const Parameter& parameter = schema_.find(key);
  const auto found = values_.find(parameter.key);
  return found == values_.end() ? parameter.fallback : found->second;
}

bool Config::is_set(std::string_view key) const { return values_.contains(schema_.find(key).key); }

void Config::reset(std::string_view prefix) {
  std::erase_if(values_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

std::string Config::to_toml(bool commented) const {
  // Groups in order of first appearance; a group declared in two places stays one table.
  std::vector<std::string> groups;
  for (const auto& parameter : schema_.all())
    if (std::find(groups.begin(), groups.end(), group_of(parameter.key)) == groups.end())
      groups.push_back(group_of(parameter.key));
  std::string text;
  for (const auto& group : groups) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", group);
    for (const auto& parameter : schema_.all()) {
      if (group_of(parameter.key) != group) continue;
      const std::string line =
          fmt::format("{} = {}", parameter.key.substr(group.size() + 1), to_text(get(parameter.key)));
      if (commented)
        text += fmt::format("# {}{}\n# {}\n", parameter.help,
                            parameter.bounds().empty() ? "" : fmt::format(" ({})", parameter.bounds()), line);
      else
        text += line + "\n";
    }
  }
  return text;
}

}  // namespace fedgrab
