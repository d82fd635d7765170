#include "fedgrab/experiment/majority_baseline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fedgrab/method/composition_params.h"

namespace fedgrab {
namespace {

std::string what_to_try(const Settings& settings) {
  std::vector<std::string> hints;
  if (settings.method != MethodParams().name) hints.push_back(fmt::format("--method {}", MethodParams().name));
  if (settings.train.schedule == Schedule::constant) hints.emplace_back("--set train.schedule=cosine");
  hints.push_back(fmt::format("--set train.lr={:.2g}", settings.train.lr / 3));
  hints.push_back(fmt::format("--rounds {}", 2 * settings.train.rounds));
  return fmt::format("{}", fmt::join(hints, ", "));
}

}  // namespace

std::string majority_warning(const Accuracy& last, const Dataset& data, const Settings& settings) {
  const auto counts = class_counts(data.test.labels, data.classes());
  const auto largest = std::max_element(counts.begin(), counts.end());
  const double share = static_cast<double>(*largest) / static_cast<double>(std::max<int64_t>(data.test.count(), 1));
  if (last.all > share) return {};
  return fmt::format(
      "accuracy {:.3f} does not exceed {:.3f}, the share of {} in the test set; balanced accuracy {:.3f}, by chance "
      "{:.3f} (try {})",
      last.all, share, data.class_names[static_cast<size_t>(largest - counts.begin())],
      value_of(last, Measure::balanced_accuracy).value_or(0), 1 / static_cast<double>(data.classes()),
      what_to_try(settings));
}

}  // namespace fedgrab
