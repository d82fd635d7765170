#include "fedgrab/experiment/posthoc_fit.h"

#include <algorithm>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

constexpr int64_t most_logits = int64_t{1} << 26;  // held at once, by which a class has enough images to be fitted on
constexpr int64_t copied_at_once = 16 * evaluation_batch;

bool fits_on_validation(const Composition& method, const Preparation& prepared) {
  return method.fit_on() == FitImages::validation ||
         (method.fit_on() == FitImages::automatic && prepared.validation.count() > 0);
}

torch::Tensor labels_of(const Split& split) {
  return torch::tensor(std::vector<int64_t>(split.labels.begin(), split.labels.end()));
}

/// Training samples, as many of a class as bounded memory allows, spread over what the class has.
std::vector<int64_t> training_samples(const Preparation& prepared) {
  const int64_t classes = prepared.data.classes();
  const int64_t most = std::max<int64_t>(most_logits / (classes * classes), 1);
  std::vector<int64_t> seen(static_cast<size_t>(classes)), chosen;
  for (const int64_t sample : prepared.samples) {
    const auto label = static_cast<size_t>(prepared.data.train.labels[static_cast<size_t>(sample)]);
    const int64_t stride = (prepared.counts[label] + most - 1) / most;
    if (seen[label]++ % stride == 0) chosen.push_back(sample);
  }
  return chosen;
}

/// Without augmentation, in blocks, so that few images are copied at a time.
LabelledLogits on_training(Engine& engine, const State& model, const Preparation& prepared) {
  const auto samples = training_samples(prepared);
  std::vector<torch::Tensor> logits, labels;
  for (size_t first = 0; first < samples.size(); first += copied_at_once) {
    const auto some = std::span(samples).subspan(first, std::min<size_t>(copied_at_once, samples.size() - first));
    const Split block = copy_samples(prepared.data.train, some);
    logits.push_back(engine.predict(model, block, true).logits);
    labels.push_back(labels_of(block));
  }
  return {torch::cat(logits), torch::cat(labels), prepared.data.balanced};
}

LabelledLogits on_validation(Engine& engine, const State& model, const Preparation& prepared) {
  return {engine.predict(model, prepared.validation, true).logits, labels_of(prepared.validation),
          prepared.data.balanced};
}

}  // namespace

void require_fit_images(const Composition& method, const Preparation& prepared) {
  if (prepared.validation.count() > 0) return;
  if (method.fitted() && method.fit_on() == FitImages::validation)
    throw Error(Fault::usage, "posthoc.fit_on", "there is no validation split",
                "set data.validation, 0.1 say, or posthoc.fit_on=training");
  if (method.has_temperature())
    throw Error(Fault::usage, "posthoc.temperature", "is fitted on a validation split, and there is none",
                "set data.validation, 0.1 say");
}

void fit_posthoc(Engine& engine, const Composition& method, const Preparation& prepared, const State& global,
                 TensorMap& server) {
  require_fit_images(method, prepared);
  if (method.fitted()) {
    const State model = method.undeployed(global, server);
    method.fit(fits_on_validation(method, prepared) ? on_validation(engine, model, prepared)
                                                    : on_training(engine, model, prepared),
               global, server);
  }
  if (method.has_temperature())
    method.fit_temperature(on_validation(engine, method.uncalibrated(global, server), prepared), server);
}

PosthocRecord posthoc_record(const std::string& kind, const Composition& method, const Preparation& prepared,
                             const TensorMap& server) {
  PosthocRecord record{kind, {}, method.posthoc_numbers(server)};
  if (method.fitted())
    record.fitted_on = name_of(fits_on_validation(method, prepared) ? FitImages::validation : FitImages::training);
  return record;
}

}  // namespace fedgrab
