/// What is on the disk, without exceptions: a path that may not be looked at counts as absent.
#pragma once

#include <filesystem>

namespace fedgrab {

inline bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

inline bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace fedgrab
