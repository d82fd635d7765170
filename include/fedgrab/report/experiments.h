/// Runs that differ in nothing but the seed are one experiment. A repeated seed is not independent, so it starts
/// another experiment, "fedgrab (2)".
#pragma once

#include <span>

#include "fedgrab/report/run.h"

namespace fedgrab {

struct Experiment {
  std::vector<std::string> values;  // of Experiments::keys
  std::vector<size_t> runs;
};

struct Experiments {
  std::vector<std::string> keys;  // the method, then other parameters that differ
  std::vector<Experiment> all;    // in order of appearance

  /// "fedgrab", or "fedgrab, train.lr 0.1" where the method alone does not say which.
  std::string name(const Experiment& experiment) const;
};

/// As a page or table shows it: of a path of this machine the last name alone.
std::string shown_value(const std::string& key, const std::string& value);

Experiments experiments_of(std::span<const Run> runs);

/// The runs that represent the experiment: those that have ended, where none has those that were evaluated, and where
/// none was all.
std::vector<size_t> counted(std::span<const Run> runs, const Experiment& experiment);

}  // namespace fedgrab
