/// Where a model's parameters lie on the device: weights of convolutions (and of linear layers, which are convolutions
/// as large as their input) first, with the input channels innermost and padded (as the kernels read them), then
/// whatever else an optimiser moves, then what it does not.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>

#include "fedgrab/model/model.h"

namespace fedgrab::cuda {

inline torch::TensorOptions on_device(torch::ScalarType type) { return torch::dtype(type).device(torch::kCUDA); }

/// A weight [out][in][tap] as a convolution reads it.
struct ConvolutionWeight {
  int64_t out, in, taps;
};

class DeviceLayout {
 public:
  /// `convolutions`: by name of the parameter.
  DeviceLayout(const Model& model, std::map<std::string, ConvolutionWeight> convolutions);

  int64_t size() const { return size_; }                  // floats, padding included
  int64_t convolutions() const { return convolutions_; }  // end of the convolution weights
  int64_t trained() const { return trained_; }            // end of what the optimiser moves
  int64_t offset(const std::string& name) const { return offsets_.at(name); }

  /// A flat state, on the device, in this layout and back.
  torch::Tensor from_state(const torch::Tensor& flat) const;
  torch::Tensor to_state(const torch::Tensor& values) const { return values.index_select(0, back_); }

 private:
  void place(const ParameterInfo& parameter, std::vector<int32_t>& there, std::vector<int32_t>& back);

  std::map<std::string, ConvolutionWeight> weights_;
  int64_t size_ = 0, convolutions_ = 0, trained_ = 0;
  std::map<std::string, int64_t> offsets_;
  torch::Tensor there_, back_;  // for each place, the index in the other layout; padding reads the zero at the end
};

/// Input channels as the kernels count them.
int64_t padded(int64_t channels);

}  // namespace fedgrab::cuda
