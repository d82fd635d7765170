#include "reproduction_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fedgrab/core/error.h"
#include "split.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

/// The values that cells have on an axis.
std::set<std::string> values_of(const std::vector<SweepCell>& cells, const std::string& key) {
  std::set<std::string> values;
  for (const auto& cell : cells)
    if (const auto value = cell.value(key)) values.insert(*value);
  return values;
}

/// Parameters of the grid cannot be changed, except the data set, for a trial without the paper's data.
bool may_change(const std::vector<SweepCell>& cells, const std::string& key) {
  const auto values = values_of(cells, key);
  if (key.starts_with("data.") || values.empty()) return true;
  return values.size() == 1 && key != "train.seed" && key != "method.name";
}

/// The cells with what the user asks for. Data that a cell names is looked for in the folder that the user names.
std::vector<SweepCell> changed_cells(std::vector<SweepCell> cells, const Assignments& flags) {
  const Schema schema = full_schema();
  for (const auto& [key, asked] : flags) {
    const std::string& parameter = schema.find(key).key;
    if (!may_change(cells, parameter))
      throw Error(Fault::usage, parameter, "is what this reproduction varies", "choose with --cells or --seeds");
    for (auto& cell : cells)
      for (auto& [own, value] : cell.all)
        if (own == parameter) value = own == "data.path" ? (fs::path(asked) / value).string() : asked;
  }
  return cells;
}

/// KEY=VALUE[,VALUE…], each value one that some cell has.
class CellFilter {
 public:
  CellFilter(const std::vector<std::string>& asked, const std::vector<SweepCell>& cells) {
    for (const auto& text : asked) {
      const auto equals = text.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        throw Error(Fault::usage, "--cells " + text, "not of the form key=value",
                    "for example --cells method=fedavg,fedgrab");
      const std::string key = full_schema().find(text.substr(0, equals)).key;
      const auto known = values_of(cells, key);
      if (known.empty()) throw Error(Fault::usage, "--cells " + text, key + " is not varied here");
      auto& wanted = wanted_[key];
      const std::string all = text.substr(equals + 1);
      for (const auto& value : known.contains(all) ? std::vector{all} : split(all, ',')) {  // a value may be a list
        if (!known.contains(value))
          throw Error(Fault::usage, "--cells " + text, fmt::format("there is no {} {}", key, value),
                      fmt::format("one of {}", fmt::join(known, ", ")));
        wanted.insert(value);
      }
    }
  }
  bool operator()(const SweepCell& cell) const {
    return std::all_of(wanted_.begin(), wanted_.end(),
                       [&](const auto& axis) { return axis.second.contains(cell.value(axis.first).value_or("")); });
  }

 private:
  std::map<std::string, std::set<std::string>> wanted_;
};

}  // namespace

ReproductionPlan plan(const Reproduction& what, const ReproduceOptions& options) {
  const fs::path folder = options.out / what.runs, runs = folder / "runs";
  ReproductionPlan p{.file = {(folder / (what.runs + ".toml")).string(), what.grid}};
  const auto cells = cells_of(what, options.seeds);
  const CellFilter filter(options.cells, cells);
  p.jobs = jobs_of(p.file, changed_cells(cells, options.flags), options.flags, runs);
  for (const auto& cell : cells)
    p.shown.push_back({.cell = cell, .directory = {runs / cell.name}, .asked = filter(cell)});
  if (std::none_of(p.shown.begin(), p.shown.end(), [](const ShownCell& cell) { return cell.asked; }))
    throw Error(Fault::usage, "--cells", "no cell is all of that", "fewer conditions leave more cells");
  p.paper_rounds = std::get<int64_t>(resolve_config(p.file, {}).get("train.rounds"));
  return p;
}

}  // namespace fedgrab
