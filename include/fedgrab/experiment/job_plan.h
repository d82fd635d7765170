/// The remaining runs of a list, and how long they will take on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/experiment/jobs.h"

namespace fedgrab {

struct PlannedJob {
  int64_t rounds = 0;  // asked for
  int64_t done = 0;    // recorded so far
  bool finished = false;
  std::optional<double> seconds;  // for the rest; none: not known, or not asked for
};

struct JobPlan {
  std::vector<PlannedJob> jobs;  // in the order of the runs
  std::string measure;           // where the times come from
};

/// Times come from the rounds that a run has recorded, else from the other runs of the list, else from a few steps
/// timed now. A recorded run counts only where it was made with the requested settings. `asked`: the runs whose time is
/// wanted; empty: all of them.
JobPlan plan_jobs(const std::vector<Job>& jobs, const std::vector<bool>& asked = {});

}  // namespace fedgrab
