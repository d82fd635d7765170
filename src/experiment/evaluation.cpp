#include "fedgrab/experiment/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

/// Classes from the largest to the smallest.
std::vector<int64_t> by_size(std::span<const int64_t> counts) {
  std::vector<int64_t> order(counts.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
  });
  return order;
}

Groups by_mass(const EvalParams& params, std::span<const int64_t> counts) {
  if (params.mass.size() != 2 || params.mass[0] > params.mass[1])
    throw Error(Fault::usage, "eval.mass", "needs two ascending shares", "for example 0.75,0.95");
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  Groups groups;
  double before = 0;
  for (const int64_t c : by_size(counts)) {
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

/// Each in the order of the classes. Of two classes, one is Many and one Few.
Groups thirds_by_size(std::span<const int64_t> counts) {
  const auto order = by_size(counts);
  const size_t third = (order.size() + 1) / 3;
  Groups groups{.thirds = true};
  for (size_t i = 0; i < order.size(); ++i)
    (i < third ? groups.many : i + third >= order.size() ? groups.few : groups.med).push_back(order[i]);
  for (auto* group : {&groups.many, &groups.med, &groups.few}) std::sort(group->begin(), group->end());
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
  return {.many = params.many, .med = params.med, .few = params.few};
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

}  // namespace

Groups group_classes(const EvalParams& params, std::span<const int64_t> counts, bool balanced) {
  if (params.groups == GroupRule::lists) return by_lists(params, static_cast<int64_t>(counts.size()));
  if (params.groups == GroupRule::mass || (params.groups == GroupRule::automatic && balanced))
    return by_mass(params, counts);
  const Groups groups = by_counts(params, counts);
  const auto [smallest, largest] = std::minmax_element(counts.begin(), counts.end());
  const bool no_contrast = groups.many.empty() || groups.few.empty();
  return no_contrast && *smallest < *largest ? thirds_by_size(counts) : groups;
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
  for (size_t c = 0; c < m; ++c) a.per_class.push_back(ratio(right[c], all[c]));
  a.measures = measures_of({labels, predictions, {}, classes}, 0);
  a.f1 = a.measures[Measure::macro_f1];
  a.measures.erase(Measure::macro_f1);
  return a;
}

bool measures_every_round(const Split& split, int64_t classes) {
  return split.count() * classes <= most_scores_a_round;
}

bool measures_probabilities(const Split& split, int64_t classes) { return split.count() * classes <= most_scores; }

ModelOutputs outputs_of(const Predictions& predictions, const Split& split, int64_t classes) {
  ModelOutputs outputs{split.labels, predictions.classes, {}, classes};
  if (predictions.logits.defined())
    outputs.logits = {predictions.logits.data_ptr<float>(), static_cast<size_t>(predictions.logits.numel())};
  return outputs;
}

std::vector<std::vector<int64_t>> confusion_matrix(std::span<const int32_t> predictions,
                                                   std::span<const int32_t> labels, int64_t classes) {
  std::vector<std::vector<int64_t>> counts(static_cast<size_t>(classes),
                                           std::vector<int64_t>(static_cast<size_t>(classes)));
  for (size_t i = 0; i < labels.size(); ++i)
    ++counts[static_cast<size_t>(labels[i])][static_cast<size_t>(predictions[i])];
  return counts;
}

}  // namespace fedgrab
