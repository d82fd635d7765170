/// Parts by preset and settings, for tests below the module that reads configuration files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fedgrab/data/partition.h"
#include "fedgrab/engine/train_params.h"
#include "fedgrab/method/composition.h"
#include "fedgrab/method/presets.h"

namespace fedgrab {

using PartSettings = std::vector<std::pair<std::string, std::string>>;

inline Config config_of(const std::string& preset, const PartSettings& settings = {}) {
  Schema schema;
  declare_parts(schema);
  schema.add<TrainParams>("train");
  schema.add<PartitionParams>("partition");
  Config config(schema);
  for (const auto& [key, value] : find_preset(preset).values) config.set_text(key, value);
  for (const auto& [key, value] : settings) config.set_text(key, value);
  return config;
}

inline std::vector<int64_t> sizes_of(const Partition& partition, const std::vector<int64_t>& clients) {
  std::vector<int64_t> sizes;
  for (const int64_t client : clients)
    sizes.push_back(static_cast<int64_t>(partition[static_cast<size_t>(client)].size()));
  return sizes;
}

}  // namespace fedgrab
