/// A TOML file as texts by dotted key, whatever schema it was written for.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace fedgrab {

std::map<std::string, std::string> read_flat_toml(const std::filesystem::path& file);

}  // namespace fedgrab
