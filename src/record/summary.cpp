#include "fedgrab/record/summary.h"

#include <algorithm>
#include <functional>
#include <span>

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
  for (size_t c = 0; c < records.front()->accuracy->per_class.size(); ++c)
    mean.per_class.push_back(*mean_of(records, [&](const Accuracy& a) { return std::optional(a.per_class[c]); }));
  return mean;
}

double merit(const Accuracy& accuracy, Criterion criterion) {
  if (criterion == Criterion::macro_f1) return accuracy.f1;
  return criterion == Criterion::few ? accuracy.few.value_or(0) : accuracy.all;
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
  const auto reached = std::find_if(evaluated.begin(), evaluated.end(),
                                    [](const auto* r) { return r->accuracy->few && *r->accuracy->few >= 0.55; });
  if (reached != evaluated.end()) summary.few_round = (*reached)->round;
  for (const auto& record : records) summary.seconds += record.seconds;
  return summary;
}

}  // namespace fedgrab
