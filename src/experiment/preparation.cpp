#include "fedgrab/experiment/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>

#include "fedgrab/core/error.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/core/random.h"
#include "fedgrab/data/group_split.h"
#include "fedgrab/experiment/evaluation.h"

namespace fedgrab {
namespace {

/// Moves the same share of every class out of `samples`; a class keeps at least one sample for training.
std::vector<int64_t> hold_out(std::vector<int64_t>& samples, std::span<const int32_t> labels, int64_t classes,
                              double share, uint64_t seed) {
  std::vector<std::vector<int64_t>> of_class(static_cast<size_t>(classes));
  for (const int64_t i : samples) of_class[static_cast<size_t>(labels[static_cast<size_t>(i)])].push_back(i);
  std::vector<int64_t> held;
  samples.clear();
  for (size_t c = 0; c < of_class.size(); ++c) {
    const auto n = static_cast<int64_t>(of_class[c].size());
    if (n == 0) continue;
    const auto order = permutation(n, Random(seed, Purpose::split, static_cast<uint32_t>(c)));
    const auto out = std::min(static_cast<int64_t>(std::floor(static_cast<double>(n) * share)), n - 1);
    for (int64_t i = 0; i < n; ++i)
      (i < out ? held : samples).push_back(of_class[c][static_cast<size_t>(order[static_cast<size_t>(i)])]);
  }
  std::sort(samples.begin(), samples.end());
  std::sort(held.begin(), held.end());
  return held;
}

/// The same with whole groups, as near to the share as they allow.
std::vector<int64_t> hold_out_whole_groups(std::vector<int64_t>& samples, const Dataset& data, double share,
                                           uint64_t seed) {
  std::vector<int32_t> labels, groups;
  for (const int64_t i : samples) {
    labels.push_back(data.train.labels[static_cast<size_t>(i)]);
    groups.push_back(data.groups[static_cast<size_t>(i)]);
  }
  const auto out = hold_out_groups(labels, groups, share, OfEveryClass::share, seed);
  std::vector<int64_t> held, kept;
  for (size_t k = 0; k < samples.size(); ++k) (out[k] ? held : kept).push_back(samples[k]);
  samples = std::move(kept);
  return held;
}

/// Up to `per_class` samples of every class that are not among `used`, nor of a group of one that is.
std::vector<int64_t> unused(const std::vector<int64_t>& used, const Dataset& data, int64_t per_class, uint64_t seed) {
  const auto& labels = data.train.labels;
  const int64_t classes = data.classes();
  std::vector<bool> taken(labels.size());
  for (const int64_t i : used) taken[static_cast<size_t>(i)] = true;
  std::unordered_set<int32_t> used_groups;
  if (!data.groups.empty())
    for (const int64_t i : used) used_groups.insert(data.groups[static_cast<size_t>(i)]);
  for (size_t i = 0; i < data.groups.size(); ++i)
    if (used_groups.contains(data.groups[i])) taken[i] = true;
  std::vector<int64_t> left(static_cast<size_t>(classes), per_class), chosen;
  for (const int64_t i : permutation(static_cast<int64_t>(labels.size()), Random(seed, Purpose::split))) {
    const auto at = static_cast<size_t>(i);
    auto& wanted = left[static_cast<size_t>(labels[at])];
    if (taken[at] || wanted == 0) continue;
    --wanted;
    chosen.push_back(i);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void use_common_classes(Dataset& data, const std::vector<std::string>& common) {
  if (std::set(common.begin(), common.end()).size() != common.size())
    throw Error(Fault::usage, "classes", "name a class twice");
  std::vector<int32_t> place;
  for (const auto& name : data.class_names) {
    const auto found = std::find(common.begin(), common.end(), name);
    if (found == common.end())
      throw Error(Fault::data, data.name, fmt::format("holds a class {} that the federation does not know", name));
    place.push_back(static_cast<int32_t>(found - common.begin()));
  }
  for (auto* split : {&data.train, &data.validation, &data.test})
    for (auto& label : split->labels) label = place[static_cast<size_t>(label)];
  data.class_names = common;
}

/// A split of the data set's own goes before one that is made here.
void hold_out_validation(Preparation& p, const Settings& settings) {
  const double share = settings.data.validation;
  if (settings.longtail.validation > 0) {
    if (share > 0)
      throw Error(Fault::usage, "longtail.validation", "and data.validation both ask for a validation split",
                  "set one of them");
    p.validation = copy_samples(p.data.train, unused(p.samples, p.data, settings.longtail.validation, settings.seed()));
  } else if (p.data.validation.count() > 0) {
    if (share > 0) note("data.validation is not applied: the data set has a validation split of its own");
    p.validation = p.data.validation;
  } else if (share > 0) {
    const auto held = p.data.groups.empty()
                          ? hold_out(p.samples, p.data.train.labels, p.data.classes(), share, settings.seed())
                          : hold_out_whole_groups(p.samples, p.data, share, settings.seed());
    p.validation = copy_samples(p.data.train, held);
  }
}

}  // namespace

Preparation prepare(const Settings& settings, const std::vector<std::string>& federation) {
  Preparation p;
  p.data = load_dataset(settings.data, settings.seed());
  if (!federation.empty()) use_common_classes(p.data, federation);
  if (p.data.classes() < 2)
    throw Error(Fault::data, settings.data.path, "holds one class, at least 2 are needed",
                "a folder of images: one folder per class");
  const auto& labels = p.data.train.labels;
  p.samples = sample_long_tail(settings.longtail, labels, p.data.classes(), p.data.balanced, settings.seed());
  hold_out_validation(p, settings);
  p.counts = class_counts(labels, p.samples, p.data.classes());
  p.groups = group_classes(settings.eval, p.counts, p.data.balanced);
  return p;
}

Split copy_samples(const Split& from, std::span<const int64_t> indices) {
  Split split;
  std::vector<uint8_t> bytes;
  bytes.reserve(indices.size() * static_cast<size_t>(from.images.stored().size()));
  for (const int64_t i : indices) {
    const auto image = from.images.at(i);
    bytes.insert(bytes.end(), image.begin(), image.end());
    split.labels.push_back(from.labels[static_cast<size_t>(i)]);
  }
  split.images = Images::own(from.images.shape, std::move(bytes));
  split.images.margin = from.images.margin;
  return split;
}

Partition partition_samples(const Settings& settings, const Preparation& prepared) {
  return make_partition(settings.partition, prepared.samples, prepared.data.train.labels, prepared.data.classes(),
                        settings.seed(), prepared.data.clients, prepared.data.groups);
}

}  // namespace fedgrab
