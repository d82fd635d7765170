#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace fedgrab {

/// The unpacked content of a .gz file. Throws Error(Fault::data) when it is damaged or cut short.
std::vector<uint8_t> read_gzip(const std::filesystem::path& path);

}  // namespace fedgrab
