/// The classifier of the deployed model: what is changed after training, before a model is evaluated or exported.
#pragma once

#include "fedgrab/core/registry.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

/// Logits of the undeployed model for images that were not trained on.
struct LabelledLogits {
  torch::Tensor logits, labels;
};

class PosthocClassifier : public Part {
 public:
  /// Whether fit() is to be called before deploy(), with the validation split.
  virtual bool fitted() const { return false; }
  /// Keeps what it fits in the server's state.
  virtual void fit(const LabelledLogits& /*images*/, const torch::Tensor& /*prior*/, TensorMap& /*server*/) const {}
  /// `prior`: the estimated class prior, unscaled; undefined: none.
  virtual State deploy(const State& model, const torch::Tensor& prior, const TensorMap& server) const = 0;
  /// The model a client would use for itself after local training.
  virtual State personalise(const ClientContext& /*client*/, const State& local) const { return local; }
};

struct PosthocParams {
  std::string kind = "none";
  template <class Visitor>
  void describe(Visitor& v) {
    v.param(
        "kind", kind,
        "change of the classifier after training: none, tau-norm, logit-adjustment, bias-calibration, mean-softmax, "
        "creff or aligned");
  }
};

const std::vector<Choice<PosthocClassifier>>& posthoc_classifiers();

}  // namespace fedgrab
