/// FedNova (Wang et al. 2020, Eq. 7): w ← w + τ_eff Σ_k p_k d_k with d_k = (w_k − w)/‖a_k‖₁ and τ_eff = Σ_k p_k ‖a_k‖₁,
/// so that a client with more steps does not pull further. ‖a‖₁ is the number of steps, momentum m counted in: [τ − m(1
/// − m^τ)/(1 − m)]/(1 − m). BatchNorm's statistics are averaged plainly.
#include "entries.h"

namespace fedgrab {
namespace {

class FedNova : public Method {
 public:
  using Method::Method;
  static constexpr const char* name = "fednova";

  std::vector<Contribution> contribute(const ClientView& view, const LocalResult& result) const override {
    auto sent = Method::contribute(view, result);
    const double steps = effective_steps(result.steps, result.momentum);
    auto& values = sent.front().values;
    values = values.clone();
    const auto global = view.global.flat.to(values.device());
    for (const auto& [offset, size] : moved_ranges(*result.local.model))
      values.narrow(0, offset, size).sub_(global.narrow(0, offset, size)).div_(steps);
    sent.push_back({"steps", torch::tensor({static_cast<float>(steps)}), view.share, sizeof(float)});
    return sent;
  }

  void server_rule(State& global, const Sums& sums, int64_t /*round*/, TensorMap& /*memory*/) const override {
    auto average = sums["state"];
    const double steps = sums["steps"].item<double>();
    for (const auto& [offset, size] : moved_ranges(*global.model))
      average.narrow(0, offset, size).mul_(steps).add_(global.flat.narrow(0, offset, size));
    adopt_shared(global, average);
  }
};

}  // namespace

MethodEntry fednova_entry() {
  return entry_of<FedNova>(groups::federated,
                           "updates are divided by each client's number of steps before averaging (Wang 2020)");
}

}  // namespace fedgrab
