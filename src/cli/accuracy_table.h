/// The table a run ends with.
#pragma once

#include <string>

#include "fedgrab/record/schema.h"
#include "fedgrab/record/table.h"

namespace fedgrab::cli {

/// "0.712", or "–" where a group is empty.
std::string percent(const std::optional<double>& value);
/// All, Many, Med, Few as cells.
std::vector<std::string> accuracy_cells(const Accuracy& accuracy);
/// Last, mean of the last ten, best, and which classes are in which group.
std::string summary_text(const Summary& summary);
/// The part, and the numbers that were fitted.
std::string posthoc_text(const PosthocRecord& record);
/// "Many: circle square …" and so on.
std::string groups_text(const Groups& groups, const std::vector<std::string>& class_names);

}  // namespace fedgrab::cli
