/// Cross-entropy of the softmax: dL/dz_j = σ_j − t_j, with t the targets.
#include "fedgrab/objective/objective.h"

namespace fedgrab {

LogitLoss softmax_loss(const LogitBatch& batch) {
  const auto log_probability = batch.logits.log_softmax(-1);
  const auto weight = mean_weights(batch);
  const auto at = [&](const torch::Tensor& labels) {
    return log_probability.gather(-1, labels.unsqueeze(-1)).squeeze(-1);
  };
  auto of_label = at(batch.labels);
  if (batch.other_labels.defined()) of_label = of_label * batch.share + at(batch.other_labels) * (1 - batch.share);
  const auto gradient = (log_probability.exp() - targets(batch)) * weight.unsqueeze(-1);
  return {-(of_label * weight).sum(-1), gradient};
}

}  // namespace fedgrab
