/// SGD with momentum over the flat buffers of a network, all terms of the local gradient in one pass.
#pragma once

#include <vector>

#include "fedgrab/engine/train_params.h"
#include "fedgrab/model/network.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

class Sgd {
 public:
  explicit Sgd(const Model& model);

  /// Forgets the momentum.
  void reset() { velocity_.zero_(); }
  /// w ← w − lr·v, v ← m·v + g + wd·w + μ(w − w_global) + correction; leaves the gradient at zero for the next step.
  /// Auxiliary heads have neither proximal term nor correction; without decay_norms, BatchNorm and biases have no
  /// decay.
  void step(Network& network, const State& global, const LocalProblem& problem, const TrainParams& params, double lr);

 private:
  /// Neighbouring parameters that are updated alike.
  struct Stretch {
    Range range;
    bool auxiliary, weights;  // weights: neither of BatchNorm nor biases
  };
  std::vector<Range> trained_;
  std::vector<Stretch> stretches_;
  torch::Tensor velocity_;
};

}  // namespace fedgrab
