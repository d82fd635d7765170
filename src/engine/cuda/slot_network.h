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
#include "tile_choice.h"

namespace fedgrab::cuda {

/// Weights of all slots; rows of layout.size().
struct SlotWeights {
  torch::Tensor values;    // float
  torch::Tensor velocity;  // float; undefined where nothing is trained
  torch::Tensor copy;      // bf16; undefined in the float precisions
  torch::Tensor tickets;   // of kernels that sum over rows; undefined where nothing is trained

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
  /// `tiles` outlives it.
  SlotNetwork(std::shared_ptr<const Model> model, Precision precision, TileChoice& tiles);

  const DeviceLayout& layout() const { return layout_; }
  Precision precision() const { return precision_; }
  torch::ScalarType type() const { return precision_ == Precision::bf16 ? torch::kBFloat16 : torch::kFloat; }
  /// Bytes of activations and their gradients per slot and sample: an upper bound.
  int64_t activation_bytes() const;
  /// Samples per slot that the kernels' 32-bit offsets can tell apart.
  int64_t largest_batch() const;

  /// What backward() needs of a forward pass.
  struct Tape {
    RoundPlan plan;                     // given: where dropout finds its numbers
    std::vector<torch::Tensor> values;  // by operation
    std::vector<torch::Tensor> extra;   // statistics of a norm, winners of a pool
  };
  /// images [slots, batch, height, width, channels] → features [slots, batch, features], float. With a tape: batch
  /// statistics; without: running statistics.
  torch::Tensor forward(const SlotWeights& weights, const torch::Tensor& images, const torch::Tensor& counts,
                        Tape* tape) const;
  void backward(const SlotWeights& weights, const torch::Tensor& images, const torch::Tensor& counts, Tape& tape,
                const torch::Tensor& feature_gradient, Update& update) const;

 private:
  enum class Kind { convolution, norm, bias, max_pool, dropout, global_average };
  struct Operation {
    Kind kind;
    int input;              // operation whose output it reads; -1: the images
    int residual = -1;      // norm: added before the ReLU
    bool relu = false;      // norm, bias
    int norm = -1;          // convolution: the norm that alone reads it
    int completed_by = -1;  // norm: the operation that in the backward pass is the last to add to its gradient
    int64_t in = 0, out = 0, height = 0, width = 0, out_height = 0, out_width = 0;
    int64_t kernel = 1, stride = 1, padding = 0;
    bool linear = false;  // a convolution that reads its input as one pixel
    int layer = 0;        // in the architecture
    double rate = 0;      // dropout
    std::string name;
  };
  std::map<std::string, ConvolutionWeight> convolution_weights() const;
  static std::vector<Operation> compile(const Architecture& architecture);
  ConvolutionShape convolution_shape(const Operation& op, int64_t slots, int64_t batch) const;
  NormShape norm_shape(const Operation& op, int64_t slots, int64_t batch) const;
  NormTensors norm_tensors(const Operation& op, const SlotWeights& weights) const;
  torch::Tensor row_sums(const NormShape& shape) const;

  std::shared_ptr<const Model> model_;
  Precision precision_;
  std::vector<Operation> operations_;
  DeviceLayout layout_;
  TileChoice& tiles_;
};

}  // namespace fedgrab::cuda
