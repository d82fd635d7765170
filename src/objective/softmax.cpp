/// Cross-entropy of the softmax: dL/dz_j = σ_j − 1[j = y].
#include "fedgrab/objective/objective.h"

namespace fedgrab {

LogitLoss softmax_loss(const LogitBatch& batch) {
  const auto log_probability = batch.logits.log_softmax(-1);
  const auto weight = mean_weights(batch);
  const auto of_label = log_probability.gather(-1, batch.labels.unsqueeze(-1)).squeeze(-1);
  const auto gradient = (log_probability.exp() - one_hot(batch)) * weight.unsqueeze(-1);
  return {-(of_label * weight).sum(-1), gradient};
}

}  // namespace fedgrab
