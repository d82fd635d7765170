/// A grid of experiments from one file: every combination of the values under [sweep], each a run directory of its own,
/// so that nothing finished is ever run again.
///
///   [sweep]
///   method = ["fedavg", "fedgrab"]
///   "train.seed" = [1, 2, 3]
///
///   [sweep.with.fedgrab]          # only where this is the method
///   "train.lr" = 0.05
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/table.h"

namespace fedgrab {

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

struct Grid {
  std::vector<Axis> axes;                   // in the order of the file; the last one changes fastest
  std::map<std::string, Assignments> with;  // by method
};

/// Throws a usage Error naming the file and key at fault.
Grid read_grid(const std::filesystem::path& file);

struct SweepCell {
  std::string name;    // of its folder, too
  Assignments values;  // one per axis
  Assignments all;     // the same and what the grid adds for its method
};
std::vector<SweepCell> cells_of(const Grid& grid);

struct SweepOptions {
  std::filesystem::path file, out;
  Assignments flags;  // over the file, under the grid
  bool quiet = false;
};

struct SweepResult {
  Table table{{}};                  // a row per combination without the seed: mean ± std of All, Many, Med, Few
  std::vector<std::string> failed;  // "cell: why"
};

/// Runs what is missing and writes table.md and table.csv after every cell. A cell that fails is reported, and the
/// others go on. Throws Interrupted like a single run.
SweepResult run_sweep(const SweepOptions& options);

}  // namespace fedgrab
