/// Integers of JSON files. The library casts any number to an integer, which is undefined where the number does not
/// fit.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fedgrab {

/// Throws the library's type_error for what is no integer.
inline int64_t integer_from_json(const nlohmann::ordered_json& json) {
  if (!json.is_number_integer())
    throw nlohmann::ordered_json::type_error::create(
        302, std::string("type must be an integer, but is ") + json.type_name(), &json);
  return json.get<int64_t>();
}

inline std::vector<int64_t> integers_from_json(const nlohmann::ordered_json& json) {
  if (!json.is_array()) throw nlohmann::ordered_json::type_error::create(302, "type must be a list of integers", &json);
  std::vector<int64_t> integers;
  for (const auto& item : json) integers.push_back(integer_from_json(item));
  return integers;
}

}  // namespace fedgrab
