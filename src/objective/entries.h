/// What the objective files share: one function each for the registry.
#pragma once

#include "fedgrab/objective/objective.h"

namespace fedgrab {

/// The head of losses that are defined on cosines.
inline Head cosine_head(double scale) { return {.kind = HeadKind::cosine, .bias = false, .scale = scale}; }

/// A number per class that a client keeps, 0 at first. In double: it grows with every step.
inline torch::Tensor& per_class(TensorMap& client_state, const std::string& name, const LogitBatch& batch) {
  auto& tensor = client_state[name];
  auto shape = batch.logits.sizes().vec();
  shape.erase(shape.end() - 2);
  if (!tensor.defined()) tensor = torch::zeros(shape, torch::dtype(torch::kDouble).device(batch.logits.device()));
  return tensor;
}

/// The entry of a loss by its class; its parameters are declared under objective.NAME.
template <class Loss>
Choice<Objective> entry_of(const char* summary) {
  return choice_of<Objective, Loss>("objective", summary);
}

Choice<Objective> focal_entry();
Choice<Objective> balanced_softmax_entry();
Choice<Objective> fedlc_entry();
Choice<Objective> ldam_entry();
Choice<Objective> gcl_entry();
Choice<Objective> eqlv2_entry();
Choice<Objective> seesaw_entry();

}  // namespace fedgrab
