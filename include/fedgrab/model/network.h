/// Runs a model: forward through its layer list, backward from the gradient of the logits. One network per worker; the
/// flat buffers are its own.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <vector>

#include "fedgrab/core/random.h"
#include "fedgrab/model/model.h"
#include "fedgrab/model/state.h"

namespace fedgrab {

struct NetworkOutput {
  torch::Tensor features;             // [batch, features]
  std::vector<torch::Tensor> logits;  // one per head, [batch, classes]
};

/// 0 or 1 / (1 − rate) for each value, as the dropout layer at `index` of a network multiplies its input; a function of
/// the value's place [sample, channel, row, column], so that a device that stores values in another order finds the
/// same.
torch::Tensor dropout_factors(at::IntArrayRef sizes, size_t index, double rate, const Random& random);

class Network {
 public:
  explicit Network(const std::shared_ptr<const Model>& model, torch::TensorOptions options = torch::kFloat);

  const Model& model() const { return *state_.model; }
  /// The weights it runs with; write to `flat` in place, never replace it.
  const State& state() const { return state_; }
  /// Gradient of the trained parameters, laid out as the state; backward() adds to it.
  const torch::Tensor& gradient() const { return gradient_; }
  void load(const State& state) {
    state_.model = state.model;
    state_.flat.copy_(state.flat);
  }

  /// Batch statistics and a graph for backward(). A BatchNorm left with one value per channel uses its running
  /// statistics and does not update them. `dropout`: random numbers of this step's dropout.
  NetworkOutput forward_training(const torch::Tensor& images, const std::optional<Random>& dropout = {});
  /// Running statistics, no graph.
  NetworkOutput forward(const torch::Tensor& images);

  /// `logit_gradients` as the heads; an undefined one contributes nothing. `feature_gradient` may be undefined.
  void backward(const NetworkOutput& output, const std::vector<torch::Tensor>& logit_gradients,
                const torch::Tensor& feature_gradient = {});

 private:
  NetworkOutput run(const torch::Tensor& images, bool training, const std::optional<Random>& dropout = {});
  torch::Tensor run_layer(size_t index, const std::vector<torch::Tensor>& outputs, const torch::Tensor& images,
                          bool training, const std::optional<Random>& dropout);
  torch::Tensor run_head(const Head& head, const torch::Tensor& features);
  const torch::Tensor& leaf(const std::string& name) const { return leaves_.at(name); }

  State state_;
  torch::Tensor gradient_;
  TensorMap leaves_;  // views of the flat buffer that autograd accumulates into views of gradient_
  struct LayerTensors {
    torch::Tensor weight, bias, running_mean, running_var;
  };
  std::vector<LayerTensors> layer_tensors_;
};

}  // namespace fedgrab
