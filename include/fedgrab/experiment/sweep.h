/// A grid of experiments from one file: every combination of the values under [sweep], each a run directory of its own,
/// so that nothing finished is ever run again.
///
///   [sweep]                       # or several grids, each [[sweep]]
///   method = ["fedavg", "fedgrab"]
///   "train.seed" = [1, 2, 3]
///
///   [sweep.with.fedgrab]          # only where this is the method
///   "train.lr" = 0.05
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/experiment/job_plan.h"
#include "fedgrab/experiment/jobs.h"
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
std::vector<Grid> read_grids(const TomlText& file);

struct SweepCell {
  std::string name;    // of its folder, too
  Assignments values;  // one per axis
  Assignments all;     // the same and what the grid adds for its method

  /// Of an axis; none where its grid has no such axis.
  std::optional<std::string> value(const std::string& key) const;
  /// Its name as if the grid had no such axes.
  std::string name_without(const std::vector<std::string>& keys) const;
};
std::vector<SweepCell> cells_of(const std::vector<Grid>& grids);

/// The runs of some cells under `out`, every configuration resolved and checked. `flags` come over the file and under
/// the cell.
std::vector<Job> jobs_of(const TomlText& file, const std::vector<SweepCell>& cells, const Assignments& flags,
                         const std::filesystem::path& out);

/// By job: why its data cannot be used; empty where it can. Each data set, tail and partition is made once.
std::vector<std::string> data_faults(const std::vector<Job>& jobs);

struct SweepOptions {
  std::filesystem::path file, out;
  Assignments flags;  // over the file, under the grid
  JobOptions jobs{};
};

struct SweepResult {
  Table table{{}};                  // a row per combination without the seed: mean ± std of All, Many, Med, Few
  std::vector<std::string> failed;  // "cell: why"
};

/// A row per run: what is done already and how long the rest will take here, in order and one at a time. Trains
/// nothing and writes nothing; what is wrong with the file shows as in run_sweep().
Table sweep_preview(const SweepOptions& options);

/// Runs what is missing and writes table.md and table.csv after every cell. What is wrong with a configuration or with
/// data shows before anything is trained. A cell that fails is reported, and the others continue. Throws Interrupted
/// like a single run.
SweepResult run_sweep(const SweepOptions& options);

}  // namespace fedgrab
