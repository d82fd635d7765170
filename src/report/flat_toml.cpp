#include "flat_toml.h"

#include <toml++/toml.h>

#include <sstream>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab {
namespace {

void flatten(const toml::table& table, const std::string& prefix, std::map<std::string, std::string>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      flatten(*inner, name + ".", out);
    } else if (const auto* text = node.as_string()) {
      out[name] = text->get();
    } else {
      std::ostringstream value;
      node.visit([&](const auto& plain) { value << plain; });
      out[name] = value.str();
    }
  }
}

}  // namespace

std::map<std::string, std::string> read_flat_toml(const std::filesystem::path& file) {
  std::map<std::string, std::string> values;
  try {
    flatten(toml::parse(read_text(file), file.string()), "", values);
  } catch (const toml::parse_error& error) {
    throw Error(Fault::data, file.string(), std::string(error.description()));
  }
  return values;
}

}  // namespace fedgrab
