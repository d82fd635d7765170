/// A method by name is a preset: a named set of values of the parts' parameters. Later values win: default < preset <
/// file < flag.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fedgrab {

struct Preset {
  std::string name;
  std::string group;  // heading of `fedgrab run --method help`
  std::string summary;
  std::vector<std::pair<std::string, std::string>> values{};
};

const std::vector<Preset>& presets();
/// Throws a usage Error that names the nearest one.
const Preset& find_preset(const std::string& name);

}  // namespace fedgrab
