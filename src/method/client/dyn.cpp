/// FedDyn (Acar et al. 2021, Alg. 1): a client minimises F_k(w) − ⟨g_k, w⟩ + α/2 ‖w − θ‖² and keeps g_k ← g_k − α(w_k −
/// θ); the server takes the mean of the cohort and moves it by what all clients have drifted so far: θ ← mean w_k + d
/// with d ← d + Σ_k (w_k − θ)/N (its −h/α). g_k stays with its client: as large as the model, see engine.client_memory.
#include "entries.h"

namespace fedgrab {
namespace {

struct DynParams {
  double alpha = 0.01;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("alpha", alpha, "weight of the dynamic regulariser").between(1e-9, 1e3);
  }
};

const std::string pull = "feddyn.pull", drift = "feddyn.drift";

class Dyn : public ClientAlgorithm {
 public:
  using Params = DynParams;
  static constexpr const char* name = "dyn";
  explicit Dyn(Params params) : alpha_(params.alpha) {}

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    return {.payloads = true, .moves_target = true};
  }

  void configure(const ClientContext& client, LocalProblem& problem) const override {
    problem.proximal = alpha_;
    problem.correction = -flat_in(client.state, pull, client.round.global);
  }

  std::vector<Payload> after_training(const ClientContext& client, const LocalResult& result) const override {
    const State& global = client.round.global;
    auto moved = torch::zeros({result.local.model->size}, torch::kFloat);
    const auto local = result.local.flat.cpu();
    for (const auto& [offset, size] : optimised_ranges(*result.local.model))
      moved.narrow(0, offset, size).copy_(local.narrow(0, offset, size) - global.flat.narrow(0, offset, size));
    client.state[pull] = flat_in(client.state, pull, global) - alpha_ * moved;
    // The server could work it out from w_k: nothing more is sent.
    return {{drift, moved, Weighting::per_population, 0}};
  }

  void server_step(const RoundContext& /*round*/, const Sums& sums, State& model, TensorMap& server) const override {
    server[drift] = flat_in(server, drift, model) + sums[drift];
    model.flat += server[drift];
  }

 private:
  double alpha_;
};

}  // namespace

Choice<ClientAlgorithm> dyn_entry() {
  return choice_of<ClientAlgorithm, Dyn>("client", "dynamic regulariser (FedDyn, Acar 2021)");
}

}  // namespace fedgrab
