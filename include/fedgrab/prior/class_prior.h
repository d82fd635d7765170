/// An estimator of the class prior of the federation.
#pragma once

#include "fedgrab/core/registry.h"
#include "fedgrab/part/part.h"
#include "fedgrab/prior/prior.h"

namespace fedgrab {

/// What an estimate says of the sizes of the classes. shares: they are in this proportion; order: this class is the
/// larger one; probabilities: nothing, they are for the gate of SGB as they are.
enum class PriorMeaning { shares, order, probabilities };

class ClassPrior : public Part {
 public:
  /// Unscaled, [classes]; undefined while there is none. All clients compute the same from what they receive.
  virtual torch::Tensor estimate(const State& global, const TensorMap& server,
                                 const torch::Tensor& global_counts) const = 0;
  virtual PriorMeaning meaning() const { return PriorMeaning::shares; }
};

const std::vector<Choice<ClassPrior>>& class_priors();

}  // namespace fedgrab
