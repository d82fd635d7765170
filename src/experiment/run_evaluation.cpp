#include "run_evaluation.h"

#include "fedgrab/experiment/evaluation.h"

namespace fedgrab {
namespace {

constexpr int64_t largest_confusion = 200;
constexpr int64_t most_sampled_logits = int64_t{1} << 26;  // of all test images: 256 MiB

}  // namespace

void RunEvaluation::evaluate(Engine& engine, const State& model, RoundRecord& record) {
  const auto& [data, samples, validation, counts, groups] = run_.prepared;
  const auto test =
      engine.predict(model, data.test, samples_wanted() || measures_every_round(data.test, data.classes()));
  record.accuracy = score(test.classes, data.test.labels, groups, data.classes());
  record.accuracy->measures = measures_of(outputs_of(test, data.test, data.classes()), run_.settings.eval.specificity,
                                          worker_threads(run_.settings.engine));
  record.accuracy->measures.erase(Measure::macro_f1);  // it has a field of its own
  record.test_loss = test.loss();
  if (validation.count() > 0) {
    const auto held = engine.predict(model, validation);
    record.validation = score(held.classes, validation.labels, groups, data.classes());
  }
  if (!records_) return;
  last_ = {.round = record.round, .confusion = confusion_of(test)};
  if (samples_wanted()) samples_ = choose_samples(test, data.test, run_.settings.record.samples);
}

LastEvaluation RunEvaluation::last() const {
  LastEvaluation shown = last_;
  shown.samples = sample_images(samples_, run_.prepared.data.test);
  return shown;
}

/// The same on every rank, as they predict together.
bool RunEvaluation::samples_wanted() const {
  const auto& data = run_.prepared.data;
  return run_.settings.record.samples > 0 && data.test.count() * data.classes() <= most_sampled_logits;
}

Predictions RunEvaluation::predict_test(Engine& engine, const State& model) const {
  const auto& data = run_.prepared.data;
  return engine.predict(model, data.test, measures_probabilities(data.test, data.classes()));
}

std::vector<std::vector<int64_t>> RunEvaluation::confusion_of(const Predictions& test) const {
  const auto& data = run_.prepared.data;
  if (data.classes() > largest_confusion) return {};
  return confusion_matrix(test.classes, data.test.labels, data.classes());
}

MeasureReport RunEvaluation::measure(const Predictions& test) const {
  const auto& [data, samples, validation, counts, groups] = run_.prepared;
  const auto& settings = run_.settings;
  return measures_with_intervals(
      outputs_of(test, data.test, data.classes()), settings.eval.specificity,
      {.resamples = settings.eval.resamples, .seed = settings.seed(), .workers = worker_threads(settings.engine)});
}

}  // namespace fedgrab
