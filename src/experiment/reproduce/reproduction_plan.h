/// What a reproduction is going to run and show.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fedgrab/experiment/reproduction.h"
#include "reproduction_view.h"

namespace fedgrab {

/// A reproduction on its way: everything by cell.
struct ReproductionPlan {
  TomlText file;
  std::vector<Job> jobs;
  std::vector<ShownCell> shown;
  std::set<std::string> missing;  // why data cannot be used
  int64_t paper_rounds = 0;
};

/// Throws a usage Error where the user asks for a cell that is not there, or for a change of what cells differ in.
ReproductionPlan plan(const Reproduction& what, const ReproduceOptions& options);

}  // namespace fedgrab
