#include "fedgrab/record/summary.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "fedgrab/record/sustained.h"

namespace fedgrab {
namespace {

std::optional<double> mean_of(std::span<const RoundRecord* const> records,
                              const std::function<std::optional<double>(const Accuracy&)>& pick) {
  double sum = 0;
  for (const auto* record : records) {
    const auto value = pick(*record->accuracy);
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum / static_cast<double>(records.size());
}

Accuracy mean_accuracy(std::span<const RoundRecord* const> records) {
  Accuracy mean;
  mean.all = *mean_of(records, [](const Accuracy& a) { return std::optional(a.all); });
  mean.f1 = *mean_of(records, [](const Accuracy& a) { return std::optional(a.f1); });
  mean.many = mean_of(records, [](const Accuracy& a) { return a.many; });
  mean.med = mean_of(records, [](const Accuracy& a) { return a.med; });
  mean.few = mean_of(records, [](const Accuracy& a) { return a.few; });
  for (const auto& [measure, value] : records.front()->accuracy->measures)
    if (const auto sum = mean_of(records, [measure = measure](const Accuracy& a) { return value_of(a, measure); }))
      mean.measures[measure] = *sum;
  for (size_t c = 0; c < records.front()->accuracy->per_class.size(); ++c)
    mean.per_class.push_back(*mean_of(records, [&](const Accuracy& a) { return std::optional(a.per_class[c]); }));
  return mean;
}

/// Records of version 0.1 have no balanced accuracy: there it is the mean over all classes.
double balanced_accuracy(const Accuracy& a) {
  const double sum = std::accumulate(a.per_class.begin(), a.per_class.end(), 0.0);
  return value_of(a, Measure::balanced_accuracy)
      .value_or(a.per_class.empty() ? a.all : sum / static_cast<double>(a.per_class.size()));
}

double merit(const Accuracy& accuracy, Criterion criterion) {
  switch (criterion) {
    case Criterion::all: return accuracy.all;
    case Criterion::macro_f1: return accuracy.f1;
    case Criterion::few: return accuracy.few.value_or(0);
    case Criterion::balanced_accuracy: return balanced_accuracy(accuracy);
  }
  return 0;
}

constexpr double few_target = 0.55;

/// The first of two evaluations in a row that reached it.
std::optional<int64_t> few_reached_target(std::span<const RoundRecord* const> evaluated) {
  std::vector<double> few;
  for (const auto* record : evaluated) few.push_back(record->accuracy->few.value_or(0));
  const auto lasting = sustained(few);
  const auto reached = std::find_if(lasting.begin(), lasting.end(), [](double value) { return value >= few_target; });
  if (reached == lasting.end()) return std::nullopt;
  return evaluated[static_cast<size_t>(reached - lasting.begin())]->round;
}

}  // namespace

Summary summarise(const std::vector<RoundRecord>& records, Criterion criterion) {
  std::vector<const RoundRecord*> evaluated;
  for (const auto& record : records)
    if (record.accuracy) evaluated.push_back(&record);
  Summary summary;
  if (evaluated.empty()) return summary;
  summary.rounds = records.back().round;
  summary.last = *evaluated.back()->accuracy;
  const auto last_10 = std::span(evaluated).last(std::min<size_t>(evaluated.size(), 10));
  summary.mean_last_10 = mean_accuracy(last_10);
  summary.averaged = static_cast<int64_t>(last_10.size());
  summary.best_by_validation = evaluated.back()->validation.has_value();
  summary.criterion = name_of(criterion);
  const auto value = [&](const RoundRecord* r) {
    return merit(summary.best_by_validation ? *r->validation : *r->accuracy, criterion);
  };
  const auto* best = *std::max_element(evaluated.begin(), evaluated.end(),
                                       [&](const auto* a, const auto* b) { return value(a) < value(b); });
  summary.best_round = best->round;
  summary.best = *best->accuracy;
  summary.few_round = few_reached_target(evaluated);
  for (const auto& record : records) summary.seconds += record.seconds;
  return summary;
}

}  // namespace fedgrab
