/// Tensors by name, in alphabetical order: the form in which state is stored and sent.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

namespace fedgrab {

using TensorMap = std::map<std::string, torch::Tensor>;
inline const TensorMap no_tensors;

}  // namespace fedgrab
