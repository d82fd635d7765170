/// A table or figure of the paper: a sweep and a way to show it. Each is a file of configs/reproduce/, built into the
/// program: the grid under [sweep], the presentation under [reproduce]; NAME.csv in the same folder has the numbers of
/// the paper.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fedgrab/experiment/sweep.h"

namespace fedgrab {

/// The paper's numbers, a row per cell. A column named after a parameter, or `shown as=parameter`, says which cell;
/// All, Many, Med, Few and Few 0.55 (the round that reached it) are numbers, one with ± the deviation of the one before
/// it; the others are words.
struct PaperNumbers {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

enum class View { table, lines, bars, partition };
template <>
inline constexpr auto enum_names<View> = names("table", "lines", "bars", "partition");

/// The horizontal axis of a figure.
enum class FigureAxis { round, classes, cells, parameter };
template <>
inline constexpr auto enum_names<FigureAxis> = names("round", "class", "cell", "parameter");

/// What a figure shows: `y` are JSON pointers into a line of metrics.jsonl (over rounds or classes) or into
/// summary.json (over cells or a parameter), one panel each; of a list by class, one class.
struct FigureView {
  FigureAxis axis = FigureAxis::round;
  std::string x, x_label, band;  // x: "round", "class", "cell", or the parameter
  std::vector<std::string> y, y_label;
  int64_t of_class = -1;
};

struct Reproduction {
  std::string name, title, needs, claim, note;
  View view = View::table;
  std::string runs;  // the reproduction whose runs it looks at, its own unless it says
  std::string grid;  // TOML
  FigureView figure;
  std::map<std::string, std::string> labels;  // of series, by the name of their cells without seed and x
  PaperNumbers paper;
};

std::vector<std::string> reproduction_names();
/// Throws a usage Error naming the nearest.
Reproduction find_reproduction(const std::string& name);

/// Its cells, with other seeds where some are given.
std::vector<SweepCell> cells_of(const Reproduction& what, const std::vector<int64_t>& seeds);

struct ReproduceOptions {
  std::filesystem::path out;       // results go to a folder of its name in here, runs to runs/ in that
  Assignments flags;               // over the paper's settings
  std::vector<std::string> cells;  // KEY=VALUE[,VALUE…]: only these are run
  std::vector<int64_t> seeds;      // empty: those of the grid
  JobOptions jobs;
  std::string command, revision;  // for the record
};

struct ReproduceResult {
  std::string text;
  std::vector<std::string> failed;  // "cell: why"
};

/// Runs the chosen cells as far as they are missing, then shows all that are there: table.md and table.csv, or
/// figure.svg and figure.csv, curves.csv, and about.json with command, revision and machine. A cell that was not run is
/// marked as such. Throws a data Error where none of the chosen cells has its data.
ReproduceResult reproduce(const Reproduction& what, const ReproduceOptions& options);

/// How long the chosen runs would take here, by what `out` holds of them or else by a short timing of a step.
struct Estimate {
  int64_t runs = 0, done = 0;
  double seconds = 0;   // of those that are not done; only where known
  bool known = true;    // not where the size of a data set is unknown
  std::string measure;  // where the time comes from
};
Estimate estimate(const Reproduction& what, const ReproduceOptions& options);

}  // namespace fedgrab
