/// What the objective files share: one function each for the registry.
#pragma once

#include "fedgrab/objective/objective.h"

namespace fedgrab {

/// The head of losses that speak of cosines.
inline Head cosine_head(double scale) { return {.kind = HeadKind::cosine, .bias = false, .scale = scale}; }

/// A number per class that a client keeps, 0 at first. In double: it grows with every step.
inline torch::Tensor& per_class(TensorMap& memory, const std::string& name, const LogitBatch& batch) {
  auto& tensor = memory[name];
  auto shape = batch.logits.sizes().vec();
  shape.erase(shape.end() - 2);
  if (!tensor.defined()) tensor = torch::zeros(shape, torch::dtype(torch::kDouble).device(batch.logits.device()));
  return tensor;
}

/// The entry of a loss by its class: made from Loss::Params, which are declared under objective.NAME.
template <class Loss>
ObjectiveEntry entry_of(const char* summary) {
  static const std::string group = std::string("objective.") + Loss::name;
  return {Loss::name, summary,
          [](const Config& config) -> std::unique_ptr<Objective> {
            return std::make_unique<Loss>(config.read<typename Loss::Params>(group));
          },
          [](Schema& schema) { schema.add<typename Loss::Params>(group); }};
}

ObjectiveEntry focal_entry();
ObjectiveEntry balanced_softmax_entry();
ObjectiveEntry fedlc_entry();
ObjectiveEntry ldam_entry();
ObjectiveEntry gcl_entry();
ObjectiveEntry eqlv2_entry();
ObjectiveEntry seesaw_entry();

}  // namespace fedgrab
