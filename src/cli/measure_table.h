/// Measures with their intervals, a row each.
#pragma once

#include <string>
#include <vector>

#include "fedgrab/record/measures.h"

namespace fedgrab::cli {

struct NamedReport {
  std::string name;
  const MeasureReport* report;
};

/// "0.712 (0.650–0.771)"; "–" where it is not defined.
std::string with_interval(const std::optional<MeasuredValue>& value);
/// "sensitivity at 0.9" where it is taken at a specificity.
std::string sensitivity_title(const MeasureReport& report);
/// A column for each report, of which there is at least one.
std::string measures_text(const std::vector<NamedReport>& reports);

}  // namespace fedgrab::cli
