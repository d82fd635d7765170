#include "fedgrab/experiment/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

Groups by_mass(const EvalParams& params, std::span<const int64_t> counts) {
  if (params.mass.size() != 2 || params.mass[0] > params.mass[1])
    throw Error(Fault::usage, "eval.mass", "needs two ascending shares", "for example 0.75,0.95");
  std::vector<int64_t> order(counts.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
  });
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  Groups groups;
  double before = 0;
  for (const int64_t c : order) {
    (before < params.mass[0] ? groups.many : before < params.mass[1] ? groups.med : groups.few).push_back(c);
    before += static_cast<double>(counts[static_cast<size_t>(c)]) / total;
  }
  return groups;
}

Groups by_counts(const EvalParams& params, std::span<const int64_t> counts) {
  if (params.thresholds.size() != 2 || params.thresholds[0] < params.thresholds[1])
    throw Error(Fault::usage, "eval.thresholds", "needs two descending counts", "for example 100,20");
  Groups groups;
  for (size_t c = 0; c < counts.size(); ++c)
    (counts[c] > params.thresholds[0]   ? groups.many
     : counts[c] < params.thresholds[1] ? groups.few
                                        : groups.med)
        .push_back(static_cast<int64_t>(c));
  return groups;
}

Groups by_lists(const EvalParams& params, int64_t classes) {
  std::vector<int> seen(static_cast<size_t>(classes));
  for (const auto* list : {&params.many, &params.med, &params.few})
    for (const int64_t c : *list) {
      if (c >= classes) throw Error(Fault::usage, "eval.many, med, few", fmt::format("there is no class {}", c));
      ++seen[static_cast<size_t>(c)];
    }
  for (size_t c = 0; c < seen.size(); ++c)
    if (seen[c] != 1)
      throw Error(Fault::usage, "eval.many, med, few", fmt::format("class {} is named {} times", c, seen[c]),
                  "each class belongs to one of the three lists");
  return {params.many, params.med, params.few};
}

/// Share of right answers among the samples of some classes.
std::optional<double> pooled(const std::vector<int64_t>& classes, const std::vector<int64_t>& right,
                             const std::vector<int64_t>& all) {
  int64_t hits = 0, samples = 0;
  for (const int64_t c : classes) {
    hits += right[static_cast<size_t>(c)];
    samples += all[static_cast<size_t>(c)];
  }
  if (samples == 0) return std::nullopt;
  return static_cast<double>(hits) / static_cast<double>(samples);
}

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

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

double merit(const Accuracy& accuracy, const std::string& criterion) {
  if (criterion == "macro-f1") return accuracy.f1;
  return criterion == "few" ? accuracy.few.value_or(0) : accuracy.all;
}

}  // namespace

Groups group_classes(const EvalParams& params, std::span<const int64_t> counts, bool balanced) {
  if (params.groups == "lists") return by_lists(params, static_cast<int64_t>(counts.size()));
  if (params.groups == "mass" || (params.groups == "auto" && balanced)) return by_mass(params, counts);
  return by_counts(params, counts);
}

Accuracy score(std::span<const int32_t> predictions, std::span<const int32_t> labels, const Groups& groups,
               int64_t classes) {
  const auto m = static_cast<size_t>(classes);
  std::vector<int64_t> right(m), all(m), answered(m);
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto truth = static_cast<size_t>(labels[i]);
    const auto answer = static_cast<size_t>(predictions[i]);
    ++all[truth];
    ++answered[answer];
    if (truth == answer) ++right[truth];
  }
  Accuracy a;
  a.all = ratio(std::accumulate(right.begin(), right.end(), int64_t{0}), static_cast<int64_t>(labels.size()));
  a.many = pooled(groups.many, right, all);
  a.med = pooled(groups.med, right, all);
  a.few = pooled(groups.few, right, all);
  for (size_t c = 0; c < m; ++c) {
    a.per_class.push_back(ratio(right[c], all[c]));
    a.f1 += ratio(2 * right[c], all[c] + answered[c]) / static_cast<double>(classes);
  }
  return a;
}

std::vector<std::vector<int64_t>> confusion_matrix(std::span<const int32_t> predictions,
                                                   std::span<const int32_t> labels, int64_t classes) {
  std::vector<std::vector<int64_t>> counts(static_cast<size_t>(classes),
                                           std::vector<int64_t>(static_cast<size_t>(classes)));
  for (size_t i = 0; i < labels.size(); ++i)
    ++counts[static_cast<size_t>(labels[i])][static_cast<size_t>(predictions[i])];
  return counts;
}

Summary summarise(const std::vector<RoundRecord>& records, const std::string& criterion) {
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
  summary.criterion = criterion;
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
