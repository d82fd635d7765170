#include "fedgrab/experiment/job_plan.h"
#include "reproduction_plan.h"

namespace fedgrab {

Estimate estimate(const Reproduction& what, const ReproduceOptions& options) {
  const ReproductionPlan p = plan(what, options);
  Estimate result;
  if (what.view == View::partition) return result.measure = "nothing is trained", result;
  std::vector<bool> asked;
  for (const auto& shown : p.shown) asked.push_back(shown.asked);
  const JobPlan jobs = plan_jobs(p.jobs, asked);
  result.measure = jobs.measure;
  for (size_t i = 0; i < p.jobs.size(); ++i) {
    if (!asked[i]) continue;
    ++result.runs;
    if (jobs.jobs[i].finished)
      ++result.done;
    else if (jobs.jobs[i].seconds)
      result.seconds += *jobs.jobs[i].seconds;
    else
      result.known = false;
  }
  return result;
}

}  // namespace fedgrab
