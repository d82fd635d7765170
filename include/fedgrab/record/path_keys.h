/// Parameters that name files and folders of this machine. They stay in its run directories: what is exported is
/// without them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace fedgrab {

inline const std::vector<std::string>& path_keys() {
  static const std::vector<std::string> keys{"data.path", "data.images", "data.cache", "partition.file", "model.init"};
  return keys;
}

inline bool is_path_key(const std::string& key) {
  return std::find(path_keys().begin(), path_keys().end(), key) != path_keys().end();
}

}  // namespace fedgrab
