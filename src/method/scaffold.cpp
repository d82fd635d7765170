/// SCAFFOLD (Karimireddy et al. 2020, Alg. 1, option II): the local gradient is g − c_k + c; afterwards c_k⁺ = c_k − c
/// + (w − w_k)/(η‖a‖₁), with ‖a‖₁ the number of steps, momentum counted in, and the server's c moves by Σ_k (c_k⁺ −
/// c_k)/N. c_k stays with its client: as large as the model, see engine.client_memory.
#include "entries.h"

namespace fedgrab {
namespace {

const std::string control = "scaffold.control";

class Scaffold : public Method {
 public:
  using Method::Method;
  static constexpr const char* name = "scaffold";

  ClientRule client_rule(const ClientView& view) const override {
    auto rule = Method::client_rule(view);
    rule.correction = flat_in(view.server, control, view.global) - flat_in(view.memory, control, view.global);
    return rule;
  }

  std::vector<Contribution> contribute(const ClientView& view, const LocalResult& result) const override {
    auto sent = Method::contribute(view, result);
    const auto own = flat_in(view.memory, control, view.global);
    auto change = torch::zeros_like(own);
    const double reach = result.lr * effective_steps(result.steps, result.momentum);
    if (reach > 0) {
      const auto local = result.local.flat.cpu();
      const auto server = flat_in(view.server, control, view.global);
      for (const auto& range : moved_ranges(*result.local.model)) {  // clang 14 lets no lambda capture its parts
        const auto part = [&](const torch::Tensor& t) { return t.narrow(0, range.offset, range.size); };
        part(change).copy_((part(view.global.flat) - part(local)) / reach - part(server));
      }
    }
    view.memory[control] = own + change;
    sent.push_back({control, change, 1.0 / static_cast<double>(view.population), moved_bytes(*result.local.model)});
    return sent;
  }

  void server_rule(State& global, const Sums& sums, int64_t round, TensorMap& memory) const override {
    memory[control] = flat_in(memory, control, global) + sums[control];
    Method::server_rule(global, sums, round, memory);
  }

  int64_t bytes_down(const Model& model) const override { return Method::bytes_down(model) + moved_bytes(model); }
};

}  // namespace

MethodEntry scaffold_entry() {
  return entry_of<Scaffold>(groups::optimisers, "control variates against client drift (Karimireddy 2020)");
}

}  // namespace fedgrab
