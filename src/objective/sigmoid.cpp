/// Binary cross-entropy summed over the classes: dL/dz_j = σ(z_j) − t_j, with t the targets.
#include "fedgrab/objective/objective.h"

namespace fedgrab {

LogitLoss sigmoid_loss(const LogitBatch& batch) {
  const auto target = targets(batch);
  const auto weight = mean_weights(batch);
  // −[t log σ(z) + (1−t) log(1−σ(z))] = max(z, 0) − z t + log(1 + e^−|z|): no overflow at either end
  const auto& z = batch.logits;
  const auto loss = z.clamp_min(0) - z * target + z.abs().neg().exp().log1p();
  return {(loss.sum(-1) * weight).sum(-1), (z.sigmoid() - target) * weight.unsqueeze(-1)};
}

}  // namespace fedgrab
