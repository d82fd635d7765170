#include "fedgrab/experiment/job_plan.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

#include "fedgrab/core/error.h"
#include "round_time.h"

namespace fedgrab {
namespace {

/// Training and test images of a run, known without its files for the data sets of the paper; none: not known.
std::optional<std::pair<double, double>> images_of(const Settings& settings) {
  struct Size {
    int64_t per_class, classes, test;
  };
  static const std::map<std::string, Size> sizes{{"cifar10", {5000, 10, 10000}}, {"cifar100", {500, 100, 10000}}};
  auto size = sizes.find(settings.data.name);
  const Size shapes{settings.data.per_class, 10, settings.data.test_per_class * 10};
  if (size == sizes.end() && origin_of(settings.data) != Origin::built_in) return std::nullopt;
  const Size& known = size == sizes.end() ? shapes : size->second;
  double train = 0;
  for (const int64_t count : long_tail_counts(settings.longtail, known.per_class, known.classes))
    train += static_cast<double>(count);
  return std::pair(train, static_cast<double>(known.test));
}

/// Seconds of a round, by timing; none where the size of the data is not known.
std::optional<double> timed_round(const Settings& settings) {
  const auto images = images_of(settings);
  if (!images) return std::nullopt;
  const StepTime time = time_step(settings);
  const double steps = images->first * settings.train.participation * static_cast<double>(settings.train.local_epochs) /
                       static_cast<double>(settings.train.batch);
  return steps * time.step + images->second * time.image / static_cast<double>(settings.eval.every);
}

/// Of a run with these very settings: one on other data, or of another network, says nothing of their time.
std::vector<RoundRecord> records_of(const Job& job) {
  try {
    return has_these_settings(job) ? job.directory.read_metrics() : std::vector<RoundRecord>{};
  } catch (const Error&) {  // damaged: reported when the run is continued
    return {};
  }
}

double mean_seconds(const std::vector<RoundRecord>& records) {
  double seconds = 0;
  for (const auto& record : records) seconds += record.seconds;
  return seconds / static_cast<double>(records.size());
}

}  // namespace

JobPlan plan_jobs(const std::vector<Job>& jobs, const std::vector<bool>& asked) {
  JobPlan plan;
  std::vector<std::optional<double>> own;  // seconds of a round
  std::vector<double> recorded;
  for (const auto& job : jobs) {
    const auto records = records_of(job);
    PlannedJob& one = plan.jobs.emplace_back();
    one.rounds = read_settings(job.config).train.rounds;
    one.done = records.empty() ? 0 : records.back().round;
    one.finished = !records.empty() && one.done >= one.rounds && job.directory.finished();
    own.push_back(records.empty() ? std::nullopt : std::optional(mean_seconds(records)));
    if (own.back()) recorded.push_back(*own.back());
  }
  plan.measure = recorded.empty() ? "timed" : fmt::format("by {} runs", recorded.size());
  const double mean = std::accumulate(recorded.begin(), recorded.end(), 0.0) / static_cast<double>(recorded.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    PlannedJob& one = plan.jobs[i];
    if (one.finished || (!asked.empty() && !asked[i])) continue;
    const auto round = own[i]              ? own[i]
                       : !recorded.empty() ? std::optional(mean)
                                           : timed_round(read_settings(jobs[i].config));
    if (round) one.seconds = static_cast<double>(one.rounds - one.done) * *round;
  }
  return plan;
}

}  // namespace fedgrab
