#include "measure_table.h"

#include <fmt/format.h>

#include "fedgrab/record/table.h"

namespace fedgrab::cli {
namespace {

std::string title_in(const MeasureReport& report, Measure measure) {
  return measure == Measure::sensitivity ? sensitivity_title(report) : title_of(measure);
}

std::string cell_of(const MeasureReport& report, Measure measure) {
  const auto found = report.values.find(measure);
  return with_interval(found == report.values.end() ? std::nullopt : std::optional(found->second));
}

}  // namespace

std::string with_interval(const std::optional<MeasuredValue>& value) {
  if (!value) return "–";
  if (!value->interval) return fmt::format("{:.3f}", value->value);
  return fmt::format("{:.3f} ({:.3f}–{:.3f})", value->value, value->interval->low, value->interval->high);
}

std::string sensitivity_title(const MeasureReport& report) {
  return fmt::format("sensitivity at {:g}", report.specificity);
}

std::string measures_text(const std::vector<NamedReport>& reports) {
  const MeasureReport& first = *reports.front().report;
  std::vector<Column> columns{{first.resamples > 0 ? "measure (95 % interval)" : "measure", Align::left}};
  for (const auto& each : reports) columns.push_back({each.name});
  Table table(columns);
  for (size_t i = 0; i < enum_names<Measure>.size(); ++i) {
    const auto measure = static_cast<Measure>(i);
    std::vector<std::string> row{title_in(first, measure)};
    for (const auto& each : reports) row.push_back(cell_of(*each.report, measure));
    table.add_row(row);
  }
  return table.to_text();
}

}  // namespace fedgrab::cli
