/// FedNova (Wang et al. 2020, Eq. 7): w ← w + τ_eff Σ_k p_k d_k with d_k = (w_k − w)/‖a_k‖₁ and τ_eff = Σ_k p_k ‖a_k‖₁,
/// so that a client with more steps does not pull further. ‖a‖₁ is the number of steps, momentum m counted in: [τ − m(1
/// − m^τ)/(1 − m)]/(1 − m). BatchNorm statistics and auxiliary heads are averaged plainly.
#include "entries.h"

namespace fedgrab {
namespace {

class Nova : public Aggregator {
 public:
  static constexpr const char* name = "nova";

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override { return {.payloads = true}; }

  Payload update(const ClientContext& client, const LocalResult& result) const override {
    Payload sent = Aggregator::update(client, result);
    const double steps = effective_steps(result.steps, result.momentum);
    sent.values = sent.values.clone();
    const auto global = client.round.global.flat.to(sent.values.device());
    for (const auto& [offset, size] : optimised_ranges(*result.local.model))
      sent.values.narrow(0, offset, size).sub_(global.narrow(0, offset, size)).div_(steps);
    return sent;
  }

  std::vector<Payload> after_training(const ClientContext& /*client*/, const LocalResult& result) const override {
    const double steps = effective_steps(result.steps, result.momentum);
    return {{"steps", torch::tensor({static_cast<float>(steps)}), Weighting::server_weights, sizeof(float)}};
  }

  State target(const RoundContext& round, const Sums& sums) const override {
    State target = Aggregator::target(round, sums);
    const double steps = sums["steps"].item<double>();
    for (const auto& [offset, size] : optimised_ranges(*target.model))
      target.flat.narrow(0, offset, size).mul_(steps).add_(round.global.flat.narrow(0, offset, size));
    return target;
  }
};

}  // namespace

Choice<Aggregator> nova_entry() {
  return choice_of<Aggregator, Nova>("server", "updates divided by the number of local steps (FedNova, Wang 2020)");
}

}  // namespace fedgrab
