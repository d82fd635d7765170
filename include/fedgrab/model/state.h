/// The values of a model: one flat buffer, seen as named tensors.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "fedgrab/model/model.h"
#include "fedgrab/model/tensor_map.h"

namespace fedgrab {

struct State {
  std::shared_ptr<const Model> model;
  torch::Tensor flat;  // float32, model->size values

  /// A view: writing to it writes to the state.
  torch::Tensor view(const ParameterInfo& parameter) const;
  torch::Tensor view(const std::string& name) const { return view(model->find(name)); }
  State clone() const { return {model, flat.clone()}; }

  /// Named views, for files.
  TensorMap named() const;
  /// Copies tensors of the same names and shapes in. Throws Error(Fault::checkpoint) naming the first one that is
  /// missing, misshapen or not finite, with `source` as the file at fault. BatchNorm's `num_batches_tracked`, which
  /// torchvision writes, is ignored.
  void assign(const TensorMap& tensors, const std::string& source);
};

/// PyTorch's layer defaults (uniform ±1/√fan_in; BatchNorm 1 and 0) from our own random numbers; each parameter has a
/// stream of its own by name, so that another head does not change other parameters.
State initial_state(const std::shared_ptr<const Model>& model, uint64_t seed);

/// Makes the rows of a matrix a simplex ETF: of norm 1 with the same, largest possible angle between any two (cos =
/// −1/(M−1)). With fewer columns than rows there is none; then they have random directions.
void make_etf(const torch::Tensor& weight, uint64_t seed);

/// Fills one parameter as initial_state does. `owner` gives a client its own values; 0 is the server's.
void initialise(const torch::Tensor& values, const ParameterInfo& parameter, uint64_t seed, uint32_t owner = 0);

}  // namespace fedgrab
