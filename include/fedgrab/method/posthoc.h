/// The classifier of the deployed model: what is changed after training, before a model is evaluated or exported.
#pragma once

#include "fedgrab/core/registry.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

class PosthocClassifier : public Part {
 public:
  /// `prior`: the estimated class prior, unscaled; undefined: none.
  virtual State deploy(const State& model, const torch::Tensor& prior, const TensorMap& server) const = 0;
  /// The model a client would use for itself after local training.
  virtual State personalise(const ClientContext& /*client*/, const State& local) const { return local; }
};

struct PosthocParams {
  std::string kind = "none";
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("kind", kind,
            "change of the classifier after training: none, tau-norm, logit-adjustment, creff or aligned");
  }
};

const std::vector<Choice<PosthocClassifier>>& posthoc_classifiers();

}  // namespace fedgrab
