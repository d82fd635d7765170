/// Forward pass of a head.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>

#include "fedgrab/model/model.h"

namespace fedgrab {

/// features [.., batch, features]; `parameter` gives the tensor of a suffix (".weight", ".bias", …), which may carry
/// the same leading dimensions, one slot per client. → [.., batch, classes]
torch::Tensor head_logits(const Head& head, const torch::Tensor& features,
                          const std::function<torch::Tensor(const std::string& suffix)>& parameter);

}  // namespace fedgrab
