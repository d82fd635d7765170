#include "fedgrab/report/run_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "fedgrab/report/experiments.h"

namespace fedgrab {

namespace {

/// How many have ended, with numbers, of how many.
std::string runs_text(std::span<const Run> runs, const Experiment& experiment) {
  const auto ended = std::count_if(experiment.runs.begin(), experiment.runs.end(),
                                   [&](size_t i) { return runs[i].state == RunState::finished && runs[i].summary; });
  const auto all = std::ssize(experiment.runs);
  return ended == all ? fmt::format("{}", all) : fmt::format("{} of {}", ended, all);
}

/// The accuracies of some runs by group: All, Many, Med, Few.
std::vector<std::vector<double>> accuracies(std::span<const Run> runs, const std::vector<size_t>& some) {
  std::vector<std::vector<double>> values(4);
  for (const size_t i : some) {
    if (!runs[i].summary) continue;
    const auto& a = runs[i].summary->mean_last_10;
    const std::optional<double> groups[] = {a.all, a.many, a.med, a.few};
    for (size_t g = 0; g < values.size(); ++g)
      if (groups[g]) values[g].push_back(*groups[g]);
  }
  return values;
}

using Cells = std::vector<std::string>;

Table table_of(std::span<const Run> runs, const Cells& titles, Cells (*cells)(const std::vector<double>& values)) {
  const Experiments experiments = experiments_of(runs);
  std::vector<Column> columns{{"method", Align::left}};
  for (size_t i = 1; i < experiments.keys.size(); ++i) columns.push_back({experiments.keys[i], Align::left});
  for (const auto& title : titles) columns.push_back({title});
  columns.push_back({"runs"});
  Table table(columns);
  for (const auto& experiment : experiments.all) {
    auto row = experiment.values;
    for (const auto& group : accuracies(runs, counted(runs, experiment)))
      for (auto& cell : cells(group)) row.push_back(std::move(cell));
    row.push_back(runs_text(runs, experiment));
    table.add_row(row);
  }
  return table;
}

}  // namespace

Table run_table(std::span<const Run> runs) {
  return table_of(runs, {"All", "Many", "Med", "Few"},
                  [](const std::vector<double>& values) { return Cells{values.empty() ? "–" : mean_std(values)}; });
}

Table run_numbers(std::span<const Run> runs) {
  return table_of(runs, {"All", "All std", "Many", "Many std", "Med", "Med std", "Few", "Few std"},
                  [](const std::vector<double>& values) {
                    if (values.empty()) return Cells{"", ""};
                    return Cells{fmt::format("{:.5f}", mean_of(values)),
                                 values.size() > 1 ? fmt::format("{:.5f}", deviation_of(values)) : ""};
                  });
}

}  // namespace fedgrab
