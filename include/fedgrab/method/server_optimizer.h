/// The averaged update as a gradient for an optimiser of the server's own (Reddi et al. 2021).
#pragma once

#include "fedgrab/core/registry.h"
#include "fedgrab/method/server_params.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

class ServerOptimizer {
 public:
  virtual ~ServerOptimizer() = default;
  /// The step of one range of the flat state towards `delta` = target − global; keeps its state under `range`.
  virtual torch::Tensor step(const torch::Tensor& delta, const std::string& range, TensorMap& server) const = 0;
};

const std::vector<Choice<ServerOptimizer>>& server_optimizers();

}  // namespace fedgrab
