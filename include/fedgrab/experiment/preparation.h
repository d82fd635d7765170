/// From settings to everything training reads: dataset, long tail, held-out split, partition, groups.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/schema.h"

namespace fedgrab {

struct Preparation {
  Dataset data;
  std::vector<int64_t> samples;  // training samples after the tail is cut and validation is held out
  Split validation;              // empty unless configured
  std::vector<int64_t> counts;   // training samples per class
  Groups groups;
};

/// `federation`: the names of all its classes, where this client may lack some; its labels become theirs.
Preparation prepare(const Settings& settings, const std::vector<std::string>& federation = {});

/// The samples named, copied.
Split copy_samples(const Split& from, std::span<const int64_t> indices);

Partition partition_samples(const Settings& settings, const Preparation& prepared);

}  // namespace fedgrab
