/// SGD with momentum over the flat buffers of a network, all terms of the local gradient in one pass.
#pragma once

#include <vector>

#include "fedgrab/engine/train_params.h"
#include "fedgrab/method/method.h"
#include "fedgrab/model/network.h"

namespace fedgrab {

class Sgd {
 public:
  explicit Sgd(const Model& model);

  /// Forgets the momentum.
  void reset() { velocity_.zero_(); }
  /// w ← w − lr·v, v ← m·v + g + wd·w + μ(w − w_global) + correction; leaves the gradient at zero for the next step.
  void step(Network& network, const State& global, const ClientRule& rule, const TrainParams& params, double lr);

 private:
  std::vector<Range> trained_;
  torch::Tensor velocity_;
};

}  // namespace fedgrab
