#include "fedgrab/data/group_split.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "fedgrab/core/random.h"

namespace fedgrab {
namespace {

/// Decides group after group which side it is on, the rarest classes first, since they leave the least choice.
class GroupSplit {
 public:
  GroupSplit(std::span<const int32_t> labels, std::span<const int32_t> groups, uint64_t seed) {
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto label = static_cast<size_t>(labels[i]), group = static_cast<size_t>(groups[i]);
      if (label >= kept_.size()) kept_.resize(label + 1);
      if (group >= counts_.size()) counts_.resize(group + 1);
      ++kept_[label];
      ++counts_[group][label];
    }
    held_.resize(kept_.size());
    side_.resize(counts_.size());
    order_ = permutation(static_cast<int64_t>(counts_.size()), Random(seed, Purpose::split));
  }

  std::vector<bool> split(double fraction, OfEveryClass least) {
    std::vector<size_t> classes(kept_.size());
    std::iota(classes.begin(), classes.end(), size_t{0});
    std::stable_sort(classes.begin(), classes.end(), [&](size_t a, size_t b) { return kept_[a] < kept_[b]; });
    std::vector<std::vector<size_t>> of_class(kept_.size());
    for (const int64_t group : order_)
      for (const auto& [label, count] : counts_[static_cast<size_t>(group)])
        of_class[label].push_back(static_cast<size_t>(group));
    for (const size_t label : classes) decide(label, of_class[label], fraction, least);
    std::vector<bool> held(side_.size());
    for (size_t group = 0; group < side_.size(); ++group) held[group] = side_[group] == Side::held;
    return held;
  }

 private:
  enum class Side { open, kept, held };

  void decide(size_t label, const std::vector<size_t>& groups, double fraction, OfEveryClass least) {
    // Counted before any group of it moves.
    const double target = fraction * static_cast<double>(kept_[label] + held_[label]);
    for (const size_t group : groups) {
      if (side_[group] != Side::open) continue;
      const auto missing = target - static_cast<double>(held_[label]);
      // Holding it out brings the class nearer to its share.
      if (static_cast<double>(counts_[group][label]) < 2 * missing && leaves_some(group)) hold(group);
    }
    if (held_[label] == 0 && least == OfEveryClass::one_at_least) hold_smallest(label, groups);
    for (const size_t group : groups)
      if (side_[group] == Side::open) side_[group] = Side::kept;
  }

  void hold_smallest(size_t label, const std::vector<size_t>& groups) {
    const size_t* smallest = nullptr;
    for (const size_t& group : groups)
      if (side_[group] == Side::open && leaves_some(group) &&
          (smallest == nullptr || counts_[group][label] < counts_[*smallest][label]))
        smallest = &group;
    if (smallest != nullptr) hold(*smallest);
  }

  /// Of every class of the group.
  bool leaves_some(size_t group) const {
    return std::all_of(counts_[group].begin(), counts_[group].end(),
                       [&](const auto& part) { return kept_[part.first] > part.second; });
  }

  void hold(size_t group) {
    side_[group] = Side::held;
    for (const auto& [label, count] : counts_[group]) {
      kept_[label] -= count;
      held_[label] += count;
    }
  }

  std::vector<std::map<size_t, int64_t>> counts_;  // of each group, samples by class
  std::vector<int64_t> kept_, held_;               // samples by class
  std::vector<Side> side_;
  std::vector<int64_t> order_;
};

}  // namespace

std::vector<bool> hold_out_groups(std::span<const int32_t> labels, std::span<const int32_t> groups, double fraction,
                                  OfEveryClass least, uint64_t seed) {
  const auto of_group = GroupSplit(labels, groups, seed).split(fraction, least);
  std::vector<bool> held;
  held.reserve(groups.size());
  for (const int32_t group : groups) held.push_back(of_group[static_cast<size_t>(group)]);
  return held;
}

}  // namespace fedgrab
