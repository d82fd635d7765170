/// One model run for many clients at once on the device, each slot with its own weights: the layer list of the
/// architecture, with what belongs together (norm, residual, ReLU) fused, forward and backward written out.
#pragma once

#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "device_layout.h"
#include "fedgrab/model/model.h"
#include "kernels.h"

namespace fedgrab::cuda {

/// Weights of all slots; rows of layout.size().
struct SlotWeights {
  torch::Tensor values;    // float
  torch::Tensor velocity;  // float; undefined where nothing is trained
  torch::Tensor copy;      // bf16; undefined in the float precisions

  SlotWeights() = default;
  SlotWeights(int64_t slots, int64_t size, Precision precision, bool trained);
  int64_t slots() const { return values.size(0); }
  /// Takes over new values: momentum from zero, the copy brought up to date.
  void restart();
};

/// What becomes of the gradients.
struct Update {
  SgdRule rule;
  torch::Tensor start;       // the global model, [size]; undefined: no proximal term
  torch::Tensor correction;  // [slots, size]; undefined: none
  /// [slots, …] of what the convolutions do not use up at once, beginning at `first` in the layout.
  torch::Tensor gradient;
  int64_t first = 0;
  bool fused = true;  // convolutions step while their gradient is on the chip
  /// Weight gradients run beside the backward pass: nothing in it waits for them.
  c10::cuda::CUDAStream side;
};

class SlotNetwork {
 public:
  SlotNetwork(std::shared_ptr<const Model> model, Precision precision);

  const DeviceLayout& layout() const { return layout_; }
  Precision precision() const { return precision_; }
  torch::ScalarType type() const { return precision_ == Precision::bf16 ? torch::kBFloat16 : torch::kFloat; }
  /// Bytes of activations and their gradients per slot and sample: an upper bound.
  int64_t activation_bytes() const;
  /// Samples per slot that the kernels' 32-bit offsets can tell apart.
  int64_t largest_batch() const;

  /// What backward() needs of a forward pass.
  struct Tape {
    std::vector<torch::Tensor> values;  // by operation
    std::vector<torch::Tensor> extra;   // sums of a convolution, statistics of a norm, winners of a pool
  };
  /// images [slots, batch, height, width, channels] → features [slots, batch, features], float. With a tape: batch
  /// statistics; without: running statistics.
  torch::Tensor forward(const SlotWeights& weights, const torch::Tensor& images, const torch::Tensor& counts,
                        Tape* tape) const;
  void backward(const SlotWeights& weights, const torch::Tensor& images, const torch::Tensor& counts, Tape& tape,
                const torch::Tensor& feature_gradient, Update& update) const;

 private:
  enum class Kind { convolution, norm, max_pool, global_average };
  struct Operation {
    Kind kind;
    int input;          // operation whose output it reads; -1: the images
    int residual = -1;  // norm: added before the ReLU
    bool relu = false;  // norm
    int64_t in = 0, out = 0, height = 0, width = 0, out_height = 0, out_width = 0;
    int64_t kernel = 1, stride = 1, padding = 0;
    std::string name;
  };
  void compile();
  ConvolutionShape convolution_shape(const Operation& op, int64_t slots, int64_t batch) const;
  NormShape norm_shape(const Operation& op, int64_t slots, int64_t batch) const;
  NormTensors norm_tensors(const Operation& op, const SlotWeights& weights) const;

  std::shared_ptr<const Model> model_;
  Precision precision_;
  DeviceLayout layout_;
  std::vector<Operation> operations_;
};

}  // namespace fedgrab::cuda
