#include "fedgrab/record/measures.h"

#include <algorithm>
#include <cmath>

#include "bootstrap.h"
#include "calibration.h"
#include "class_measures.h"
#include "fedgrab/core/parallel.h"
#include "ranking.h"

namespace fedgrab {
namespace {

constexpr int64_t most_ranked_scores = int64_t{1} << 32;  // over all resamples: some seconds

/// Logarithm of the softmax's denominator, by image.
std::vector<double> log_normalisers(const ModelOutputs& outputs) {
  std::vector<double> normalisers;
  const auto classes = static_cast<size_t>(outputs.classes);
  for (size_t i = 0; i < outputs.labels.size(); ++i) {
    const auto row = outputs.logits.subspan(i * classes, classes);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float logit : row) sum += std::exp(logit - largest);
    normalisers.push_back(largest + std::log(sum));
  }
  return normalisers;
}

/// What resampling does not change: measured once, weighted many times.
class Outputs {
 public:
  Outputs(const ModelOutputs& outputs, int workers);

  bool has_probabilities() const { return !answers_.empty(); }
  /// Those of the answers, and the calibration error.
  MeasureValues plain(Weights weights) const;
  /// By class.
  std::vector<std::optional<RocPoint>> roc(Weights weights, double specificity) const;

 private:
  const ModelOutputs& outputs_;
  std::vector<Answer> answers_;
  std::vector<std::optional<Ranking>> rankings_;  // none of a class without an image
};

Outputs::Outputs(const ModelOutputs& outputs, int workers) : outputs_(outputs) {
  const bool finite =
      std::all_of(outputs.logits.begin(), outputs.logits.end(), [](float x) { return std::isfinite(x); });
  if (outputs.logits.empty() || !finite) return;
  const auto normalisers = log_normalisers(outputs);
  const auto log_probability = [&](size_t image, size_t of_class) {
    return outputs.logits[image * static_cast<size_t>(outputs.classes) + of_class] - normalisers[image];
  };
  std::vector<bool> present(static_cast<size_t>(outputs.classes));
  for (size_t i = 0; i < outputs.labels.size(); ++i) {
    const auto answer = static_cast<size_t>(outputs.answers[i]);
    answers_.push_back({std::exp(log_probability(i, answer)), outputs.labels[i] == outputs.answers[i]});
    present[static_cast<size_t>(outputs.labels[i])] = true;
  }
  rankings_.resize(present.size());
  parallel_for(outputs.classes, workers, [&](int64_t of_class, int /*worker*/) {
    const auto c = static_cast<size_t>(of_class);
    if (!present[c]) return;
    std::vector<double> scores(outputs.labels.size());
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = log_probability(i, c);
    rankings_[c].emplace(scores, outputs.labels, static_cast<int32_t>(of_class));
  });
}

MeasureValues Outputs::plain(Weights weights) const {
  MeasureValues values;
  add_class_measures(values, outputs_.labels, outputs_.answers, weights, outputs_.classes);
  if (has_probabilities()) values[Measure::ece] = expected_calibration_error(answers_, weights);
  return values;
}

std::vector<std::optional<RocPoint>> Outputs::roc(Weights weights, double specificity) const {
  std::vector<std::optional<RocPoint>> points;
  for (const auto& ranking : rankings_) points.push_back(ranking ? ranking->roc(weights, specificity) : std::nullopt);
  return points;
}

/// Means over the classes where they are defined.
void add_macro(MeasureValues& values, const std::vector<std::optional<RocPoint>>& points) {
  double auroc = 0, sensitivity = 0;
  int64_t defined = 0;
  for (const auto& point : points) {
    if (!point) continue;
    ++defined;
    auroc += point->auroc;
    sensitivity += point->sensitivity;
  }
  if (defined == 0) return;
  values[Measure::auroc] = auroc / static_cast<double>(defined);
  values[Measure::sensitivity] = sensitivity / static_cast<double>(defined);
}

std::vector<int32_t> once_each(const ModelOutputs& outputs) { return std::vector<int32_t>(outputs.labels.size(), 1); }

/// The measures of every resample.
struct Resamples {
  std::vector<MeasureValues> values;
  std::vector<std::vector<std::optional<RocPoint>>> points;  // [resample][class]; empty where there are too many

  std::optional<Interval> interval(Measure measure) const;
  std::optional<Interval> interval(size_t of_class, double RocPoint::*field) const;
};

Resamples draw(const Outputs& measured, const ModelOutputs& outputs, double specificity,
               const BootstrapOptions& options) {
  const bool ranked = outputs.scores() <= most_ranked_scores / std::max<int64_t>(options.resamples, 1);
  Resamples all{std::vector<MeasureValues>(static_cast<size_t>(options.resamples)), {}};
  all.points.resize(ranked ? all.values.size() : 0);
  parallel_for(options.resamples, options.workers, [&](int64_t number, int /*worker*/) {
    const auto i = static_cast<size_t>(number);
    const auto weights = bootstrap_weights(outputs.images(), options.seed, number);
    all.values[i] = measured.plain(weights);
    if (!ranked) return;
    all.points[i] = measured.roc(weights, specificity);
    add_macro(all.values[i], all.points[i]);
  });
  return all;
}

std::optional<Interval> Resamples::interval(Measure measure) const {
  std::vector<double> found;
  for (const auto& each : values)
    if (const auto value = each.find(measure); value != each.end()) found.push_back(value->second);
  return percentile_interval(std::move(found));
}

std::optional<Interval> Resamples::interval(size_t of_class, double RocPoint::*field) const {
  std::vector<double> found;
  for (const auto& each : points)
    if (each[of_class]) found.push_back((*each[of_class]).*field);
  return percentile_interval(std::move(found));
}

Json to_json(const MeasuredValue& estimate) {
  Json json{{"value", estimate.value}};
  if (!estimate.interval) return json;
  json["low"] = estimate.interval->low;
  json["high"] = estimate.interval->high;
  return json;
}

Json to_json(const std::vector<std::optional<MeasuredValue>>& by_class) {
  Json json = Json::array();
  for (const auto& estimate : by_class) json.push_back(estimate ? to_json(*estimate) : Json(nullptr));
  return json;
}

}  // namespace

MeasureValues MeasureReport::plain() const {
  MeasureValues plain;
  for (const auto& [measure, estimate] : values) plain[measure] = estimate.value;
  return plain;
}

MeasureValues measures_of(const ModelOutputs& outputs, double specificity, int workers) {
  const Outputs measured(outputs, workers);
  const auto weights = once_each(outputs);
  MeasureValues values = measured.plain(weights);
  add_macro(values, measured.roc(weights, specificity));
  values.erase(Measure::accuracy);
  return values;
}

MeasureReport measures_with_intervals(const ModelOutputs& outputs, double specificity,
                                      const BootstrapOptions& options) {
  const Outputs measured(outputs, options.workers);
  const auto weights = once_each(outputs);
  const auto points = measured.roc(weights, specificity);
  MeasureValues values = measured.plain(weights);
  add_macro(values, points);
  const Resamples resamples = draw(measured, outputs, specificity, options);
  MeasureReport report{outputs.images(), options.resamples, specificity, {}, {}, {}};
  for (const auto& [measure, value] : values) report.values[measure] = {value, resamples.interval(measure)};
  for (size_t c = 0; c < points.size(); ++c) {
    report.auroc.emplace_back();
    report.sensitivity.emplace_back();
    if (!points[c]) continue;
    report.auroc.back() = MeasuredValue{points[c]->auroc, resamples.interval(c, &RocPoint::auroc)};
    report.sensitivity.back() = MeasuredValue{points[c]->sensitivity, resamples.interval(c, &RocPoint::sensitivity)};
  }
  return report;
}

Json to_json(const MeasureValues& values) {
  Json json = Json::object();
  for (const auto& [measure, value] : values) json[name_of(measure)] = value;
  return json;
}

MeasureValues measures_from_json(const Json& json) {
  MeasureValues values;
  for (const auto& [name, value] : json.items())
    if (const auto measure = enum_named<Measure>(name); measure && value.is_number()) values[*measure] = value;
  return values;
}

Json to_json(const MeasureReport& report) {
  Json json{{"images", report.images}, {"specificity", report.specificity}, {"resamples", report.resamples}};
  for (const auto& [measure, estimate] : report.values) json[name_of(measure)] = to_json(estimate);
  if (report.auroc.empty()) return json;
  json["per_class"] = {{"auroc", to_json(report.auroc)}, {"sensitivity", to_json(report.sensitivity)}};
  return json;
}

}  // namespace fedgrab
