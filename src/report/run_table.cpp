#include "fedgrab/report/run_table.h"

#include <fmt/format.h>

#include "fedgrab/report/experiments.h"

namespace fedgrab {

Table run_table(std::span<const Run> runs) {
  const Experiments experiments = experiments_of(runs);
  std::vector<Column> columns{{"method", Align::left}};
  for (size_t i = 1; i < experiments.keys.size(); ++i) columns.push_back({experiments.keys[i], Align::left});
  for (const char* title : {"All", "Many", "Med", "Few", "runs"}) columns.push_back({title});
  Table table(columns);
  for (const auto& experiment : experiments.all) {
    std::vector<std::vector<double>> values(4);
    for (const size_t i : experiment.runs) {
      if (!runs[i].summary) continue;
      const auto& a = runs[i].summary->mean_last_10;
      const std::optional<double> groups[] = {a.all, a.many, a.med, a.few};
      for (size_t g = 0; g < values.size(); ++g)
        if (groups[g]) values[g].push_back(*groups[g]);
    }
    auto row = experiment.values;
    for (const auto& group : values) row.push_back(group.empty() ? "–" : mean_std(group));
    row.push_back(fmt::format("{}", experiment.runs.size()));
    table.add_row(row);
  }
  return table;
}

}  // namespace fedgrab
