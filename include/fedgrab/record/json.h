/// The JSON of every record: keys stay in the order in which they were written.
#pragma once

#include <nlohmann/json.hpp>

namespace fedgrab {

using Json = nlohmann::ordered_json;

}  // namespace fedgrab
