#include <fmt/format.h>

#include <numeric>

#include "fedgrab/core/error.h"
#include "reproduction_plan.h"
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
  if (size == sizes.end() && settings.data.name != "shapes") return std::nullopt;
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
  const double steps =
      images->first * static_cast<double>(settings.train.local_epochs) / static_cast<double>(settings.train.batch);
  return steps * time.step + images->second * time.image / static_cast<double>(settings.eval.every);
}

/// Of a run with these very settings: one on other data, or of another network, says nothing of their time.
std::optional<RoundRecord> last_round_of(const Job& job) {
  try {
    return has_these_settings(job) ? job.directory.last_round() : std::nullopt;
  } catch (const Error&) {  // damaged: it will be said when it is to go on
    return std::nullopt;
  }
}

}  // namespace

Estimate estimate(const Reproduction& what, const ReproduceOptions& options) {
  const ReproductionPlan p = plan(what, options);
  Estimate result;
  if (what.view == View::partition) return result.measure = "nothing is trained", result;
  std::vector<std::optional<RoundRecord>> lasts;
  std::vector<double> recorded;  // seconds of a round
  for (const auto& job : p.jobs)
    if (const auto& last = lasts.emplace_back(last_round_of(job))) recorded.push_back(last->seconds);
  const double mean = std::accumulate(recorded.begin(), recorded.end(), 0.0) / static_cast<double>(recorded.size());
  result.measure = recorded.empty() ? "timed" : fmt::format("by {} runs", recorded.size());
  for (size_t i = 0; i < p.jobs.size(); ++i) {
    if (!p.shown[i].asked) continue;
    ++result.runs;
    const Settings settings = read_settings(p.jobs[i].config);
    const auto& last = lasts[i];
    const int64_t left = settings.train.rounds - (last ? last->round : 0);
    if (last && left <= 0 && p.jobs[i].directory.finished())
      ++result.done;
    else if (const auto round = recorded.empty() ? timed_round(settings) : std::optional(mean))
      result.seconds += static_cast<double>(left) * *round;
    else
      result.known = false;
  }
  return result;
}

}  // namespace fedgrab
