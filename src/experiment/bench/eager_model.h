/// The same network written the usual LibTorch way, with modules and torch::optim: the baseline of the benchmark, in
/// the same process.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "fedgrab/model/model.h"

namespace fedgrab {

class EagerModel : public torch::nn::Module {
 public:
  explicit EagerModel(const Model& model);
  torch::Tensor forward(const torch::Tensor& images);

 private:
  const Model& model_;
  std::vector<torch::nn::AnyModule> modules_;  // as the layers; empty where a layer has no parameters
  torch::nn::Linear head_{nullptr};
};

}  // namespace fedgrab
