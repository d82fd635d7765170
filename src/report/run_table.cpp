#include "fedgrab/report/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

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

/// A column of numbers, of the mean over the last ten evaluations.
struct NumberColumn {
  std::string title;
  std::function<std::optional<double>(const Accuracy&)> of;
};

std::vector<NumberColumn> columns_of(std::span<const Measure> measures) {
  std::vector<NumberColumn> columns{{"All", [](const Accuracy& a) { return std::optional(a.all); }},
                                    {"Many", [](const Accuracy& a) { return a.many; }},
                                    {"Med", [](const Accuracy& a) { return a.med; }},
                                    {"Few", [](const Accuracy& a) { return a.few; }}};
  for (const Measure measure : measures)
    columns.push_back({title_of(measure), [measure](const Accuracy& a) { return value_of(a, measure); }});
  return columns;
}

std::vector<double> values_of(std::span<const Run> runs, const std::vector<size_t>& some, const NumberColumn& column) {
  std::vector<double> values;
  for (const size_t i : some)
    if (const auto value = runs[i].summary ? column.of(runs[i].summary->mean_last_10) : std::nullopt)
      values.push_back(*value);
  return values;
}

using Cells = std::vector<std::string>;

/// How the numbers of a column are written: one cell or more for each of its titles.
struct Form {
  Cells (*titles)(const std::string& title);
  Cells (*cells)(const std::vector<double>& values);
};

Table table_of(std::span<const Run> runs, std::span<const Measure> measures, const Form& form) {
  const Experiments experiments = experiments_of(runs);
  const auto numbers = columns_of(measures);
  std::vector<Column> columns{{"method", Align::left}};
  for (size_t i = 1; i < experiments.keys.size(); ++i) columns.push_back({experiments.keys[i], Align::left});
  for (const auto& number : numbers)
    for (auto& title : form.titles(number.title)) columns.push_back({std::move(title)});
  columns.push_back({"runs"});
  Table table(columns);
  for (const auto& experiment : experiments.all) {
    auto row = experiment.values;
    const auto some = counted(runs, experiment);
    for (const auto& number : numbers)
      for (auto& cell : form.cells(values_of(runs, some, number))) row.push_back(std::move(cell));
    row.push_back(runs_text(runs, experiment));
    table.add_row(row);
  }
  return table;
}

Cells both_numbers(const std::vector<double>& values) {
  if (values.empty()) return {"", ""};
  return {fmt::format("{:.5f}", mean_of(values)), values.size() > 1 ? fmt::format("{:.5f}", deviation_of(values)) : ""};
}

}  // namespace

Table run_table(std::span<const Run> runs, std::span<const Measure> measures) {
  return table_of(runs, measures,
                  {[](const std::string& title) { return Cells{title}; },
                   [](const std::vector<double>& values) { return Cells{values.empty() ? "–" : mean_std(values)}; }});
}

Table run_numbers(std::span<const Run> runs, std::span<const Measure> measures) {
  return table_of(runs, measures,
                  {[](const std::string& title) {
                     return Cells{title, title + " std"};
                   },
                   both_numbers});
}

}  // namespace fedgrab
