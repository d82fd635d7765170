/// An estimator of the class prior of the federation.
#pragma once

#include "fedgrab/core/registry.h"
#include "fedgrab/part/part.h"
#include "fedgrab/prior/prior.h"

namespace fedgrab {

class ClassPrior : public Part {
 public:
  /// Unscaled, [classes]; undefined while there is none. All clients compute the same from what they receive.
  virtual torch::Tensor estimate(const State& global, const TensorMap& server,
                                 const torch::Tensor& global_counts) const = 0;
  /// Whether the estimate is proportional to class sizes; else only its order is known to be right.
  virtual bool proportional() const { return true; }
  /// Whether prior.scale applies to it.
  virtual bool scaled() const { return true; }
};

const std::vector<Choice<ClassPrior>>& class_priors();

}  // namespace fedgrab
