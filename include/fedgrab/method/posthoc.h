/// The classifier of the deployed model: what is changed after training, before a model is evaluated or exported.
#pragma once

#include "fedgrab/core/enums.h"
#include "fedgrab/core/registry.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

/// Logits of a model for images, without augmentation.
struct LabelledLogits {
  torch::Tensor logits, labels;
  bool balanced_test = true;  // whether the test set has as many images of every class
};

/// What a fit found, by name, for the record.
using PosthocNumbers = std::map<std::string, std::vector<double>>;

class PosthocClassifier : public Part {
 public:
  /// Where it needs logits: before deploy(), with those of the undeployed model. Keeps what it fits in the server's
  /// state.
  virtual void fit(const LabelledLogits& /*images*/, const torch::Tensor& /*prior*/, TensorMap& /*server*/) const {}
  /// `prior`: the estimated class prior, unscaled; undefined: none.
  virtual State deploy(const State& model, const torch::Tensor& prior, const TensorMap& server) const = 0;
  /// The numbers that deploy() uses.
  virtual PosthocNumbers numbers(const TensorMap& /*server*/) const { return {}; }
  /// The model a client would use for itself after local training.
  virtual State personalise(const ClientContext& /*client*/, const State& local) const { return local; }
};

/// What a post-hoc classifier is fitted on.
enum class FitImages { automatic, validation, training };
template <>
inline constexpr auto enum_names<FitImages> = names("auto", "validation", "training");

struct PosthocParams {
  std::string kind = "none";
  FitImages fit_on = FitImages::automatic;
  bool temperature = false;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("kind", kind,
            "post-hoc classifier: none, tau-norm, logit-adjustment, bias-calibration, mean-softmax, creff or aligned");
    v.param("fit_on", fit_on,
            "images that the post-hoc classifier is fitted on: the validation split, or the clients' training images, "
            "which needs only sums over clients; auto: the validation split if there is one");
    v.param("temperature", temperature,
            "divide the logits by a temperature fitted on the validation split, so that the probabilities are "
            "calibrated; predicted classes do not change");
  }
};

const std::vector<Choice<PosthocClassifier>>& posthoc_classifiers();

}  // namespace fedgrab
