/// SCAFFOLD (Karimireddy et al. 2020, Alg. 1, option II): the local gradient is g − c_k + c; afterwards c_k⁺ = c_k − c
/// + (w − w_k)/(η‖a‖₁), with ‖a‖₁ the number of steps, momentum counted in, and the server's c moves by Σ_k (c_k⁺ −
/// c_k)/N. c_k stays with its client: as large as the model, see engine.client_memory.
#include "entries.h"

namespace fedgrab {
namespace {

const std::string control = "scaffold.control";

class Scaffold : public ClientAlgorithm {
 public:
  static constexpr const char* name = "scaffold";

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    return {.broadcast_models = 1, .payloads = true};
  }

  void configure(const ClientContext& client, LocalProblem& problem) const override {
    const State& global = client.round.global;
    problem.correction = flat_in(client.round.server, control, global) - flat_in(client.state, control, global);
  }

  std::vector<Payload> after_training(const ClientContext& client, const LocalResult& result) const override {
    const State& global = client.round.global;
    const auto own = flat_in(client.state, control, global);
    auto change = torch::zeros_like(own);
    const double reach = result.lr * effective_steps(result.steps, result.momentum);
    if (reach > 0) {
      const auto local = result.local.flat.cpu();
      const auto server = flat_in(client.round.server, control, global);
      for (const auto& range : optimised_ranges(*result.local.model)) {  // clang 14 lets no lambda capture its parts
        const auto part = [&](const torch::Tensor& t) { return t.narrow(0, range.offset, range.size); };
        part(change).copy_((part(global.flat) - part(local)) / reach - part(server));
      }
    }
    client.state[control] = own + change;
    return {{control, change, Weighting::per_population, optimised_bytes(*result.local.model)}};
  }

  void server_step(const RoundContext& /*round*/, const Sums& sums, State& model, TensorMap& server) const override {
    server[control] = flat_in(server, control, model) + sums[control];
  }
};

}  // namespace

Choice<ClientAlgorithm> scaffold_entry() {
  return choice_of<ClientAlgorithm, Scaffold>("client", "control variates against client drift (Karimireddy 2020)");
}

}  // namespace fedgrab
