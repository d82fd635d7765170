/// FedDyn (Acar et al. 2021, Alg. 1): a client minimises F_k(w) − ⟨g_k, w⟩ + α/2 ‖w − θ‖² and keeps g_k ← g_k − α(w_k −
/// θ); the server takes the plain mean of the cohort and moves it by what all clients have strayed so far: θ ← mean w_k
/// + d with d ← d + Σ_k (w_k − θ)/N (its −h/α). g_k stays with its client: as large as the model, see
/// engine.client_memory.
#include "entries.h"

namespace fedgrab {
namespace {

struct FedDynParams {
  double alpha = 0.01;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("alpha", alpha, "weight of the dynamic regulariser").between(1e-9, 1e3);
  }
};

const std::string pull = "feddyn.pull", drift = "feddyn.drift";

class FedDyn : public Method {
 public:
  using Params = FedDynParams;
  static constexpr const char* name = "feddyn";
  FedDyn(LocalLoss loss, Params params) : Method(std::move(loss)), alpha_(params.alpha) {}

  ClientRule client_rule(const ClientView& view) const override {
    auto rule = Method::client_rule(view);
    rule.proximal = alpha_;
    rule.correction = -flat_in(view.memory, pull, view.global);
    return rule;
  }

  std::vector<Contribution> contribute(const ClientView& view, const LocalResult& result) const override {
    auto sent = Method::contribute(view, result);
    sent.front().weight = 1.0 / static_cast<double>(view.cohort);
    auto moved = torch::zeros({result.local.model->size}, torch::kFloat);
    const auto local = result.local.flat.cpu();
    for (const auto& [offset, size] : moved_ranges(*result.local.model))
      moved.narrow(0, offset, size).copy_(local.narrow(0, offset, size) - view.global.flat.narrow(0, offset, size));
    view.memory[pull] = flat_in(view.memory, pull, view.global) - alpha_ * moved;
    // The server could work it out from w_k: nothing more is sent.
    sent.push_back({drift, moved, 1.0 / static_cast<double>(view.population), 0});
    return sent;
  }

  void server_rule(State& global, const Sums& sums, int64_t /*round*/, TensorMap& memory) const override {
    memory[drift] = flat_in(memory, drift, global) + sums[drift];
    adopt_shared(global, sums["state"] + memory[drift]);
  }

 private:
  double alpha_;
};

}  // namespace

MethodEntry feddyn_entry() {
  return entry_of<FedDyn>(groups::optimisers, "a regulariser that lets local and global optima meet (Acar 2021)");
}

}  // namespace fedgrab
