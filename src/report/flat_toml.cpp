#include "flat_toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <sstream>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/nesting.h"

namespace fedgrab {
namespace {

/// As --set would spell it; numbers in their shortest form.
std::string spelled(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  std::string list;
  if (const auto* values = node.as_array()) {
    for (const auto& value : *values) list += (list.empty() ? "" : ",") + spelled(value);
    return list;
  }
  std::ostringstream out;
  node.visit([&](const auto& plain) { out << plain; });
  return out.str();
}

void flatten(const toml::table& table, const std::string& prefix, std::map<std::string, std::string>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = node.as_table())
      flatten(*inner, name + ".", out);
    else
      out[name] = spelled(node);
  }
}

}  // namespace

std::map<std::string, std::string> read_flat_toml(const std::filesystem::path& file) {
  std::map<std::string, std::string> values;
  try {
    const std::string text = read_text(file);
    flatten(toml::parse(shallow_toml(text, file.string()), file.string()), "", values);
  } catch (const toml::parse_error& error) {
    throw Error(Fault::data, file.string(), std::string(error.description()));
  }
  return values;
}

}  // namespace fedgrab
