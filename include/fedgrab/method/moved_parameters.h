/// Parameters of version 0.1 under today's names.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fedgrab {

struct MovedValue {
  std::vector<std::pair<std::string, std::string>> now;  // empty: it has no effect any more
  bool applies = true;                                   // false: it belongs to another preset
  bool removed = false;
};

bool is_moved(const std::string& key, const std::string& value);
/// What `value` of the old `key` says today, in a run of this preset.
MovedValue translate_moved(const std::string& key, const std::string& value, const std::string& preset);

}  // namespace fedgrab
