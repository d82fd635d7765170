/// FedAvg (McMahan et al. 2017): w ← Σ_k p_k w_k, BatchNorm statistics alike.
#include "fedgrab/method/aggregator.h"

namespace fedgrab {

Payload Aggregator::update(const ClientContext& /*client*/, const LocalResult& result) const {
  return {"state", result.local.flat, Weighting::server_weights, shared_bytes(*result.local.model)};
}

State Aggregator::target(const RoundContext& round, const Sums& sums) const {
  State target = round.global.clone();
  const auto average = sums["state"];
  for (const auto& [offset, size] : shared_ranges(*target.model))
    target.flat.narrow(0, offset, size).copy_(average.narrow(0, offset, size));
  return target;
}

}  // namespace fedgrab
