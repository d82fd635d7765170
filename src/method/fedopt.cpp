/// The average of the clients' updates as a gradient for an optimiser of the server's own. FedAvgM (Hsu et al. 2019):
/// v ← βv + Δ, w ← w + ηv. FedAdagrad, FedAdam, FedYogi (Reddi et al. 2021, Alg. 2): m ← β₁m + (1 − β₁)Δ, w ← w +
/// ηm/(√v + τ), with v ← v + Δ², v ← β₂v + (1 − β₂)Δ², v ← v − (1 − β₂)Δ² sign(v − Δ²). BatchNorm's statistics are
/// averaged plainly.
#include <string>

#include "entries.h"

namespace fedgrab {
namespace {

enum class Rule { momentum, adagrad, adam, yogi };

struct MomentumParams {
  double lr = 1, beta = 0.9;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("lr", lr, "step of the server").between(0, 1000);
    v.param("beta", beta, "momentum of the server").between(0, 0.9999);
  }
};

struct AdaptiveParams {
  double lr = 0.01, beta1 = 0.9, beta2 = 0.99, tau = 1e-3;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("lr", lr, "step of the server").between(0, 1000);
    v.param("beta1", beta1, "memory of the mean update").between(0, 0.9999);
    v.param("beta2", beta2, "memory of its square (not FedAdagrad)").between(0, 0.9999);
    v.param("tau", tau, "added to the root of the square: smaller adapts more").between(1e-12, 1);
  }
};

class FedOpt : public Method {
 public:
  FedOpt(LocalLoss loss, Rule rule, AdaptiveParams params) : Method(std::move(loss)), rule_(rule), params_(params) {}

  void server_rule(State& global, const Sums& sums, int64_t /*round*/, TensorMap& memory) const override {
    auto average = sums["state"];
    for (const auto& [offset, size] : moved_ranges(*global.model)) {
      auto w = average.narrow(0, offset, size);
      const auto before = global.flat.narrow(0, offset, size);
      w.copy_(before + step(w - before, "opt." + std::to_string(offset), memory));
    }
    adopt_shared(global, average);
  }

 private:
  torch::Tensor step(const torch::Tensor& delta, const std::string& name, TensorMap& memory) const {
    auto& m = kept(memory, name + ".m", delta, 0);
    if (rule_ == Rule::momentum) return m.mul_(params_.beta1).add_(delta) * params_.lr;
    auto& v = kept(memory, name + ".v", delta, params_.tau * params_.tau);
    m.mul_(params_.beta1).add_(delta, 1 - params_.beta1);
    const auto squared = delta.square();
    if (rule_ == Rule::adagrad) v.add_(squared);
    if (rule_ == Rule::adam) v.mul_(params_.beta2).add_(squared, 1 - params_.beta2);
    if (rule_ == Rule::yogi) v.sub_(squared * torch::sign(v - squared), 1 - params_.beta2);
    return m / (v.sqrt() + params_.tau) * params_.lr;
  }
  static torch::Tensor& kept(TensorMap& memory, const std::string& name, const torch::Tensor& like, double start) {
    return memory.try_emplace(name, torch::full_like(like, start)).first->second;
  }

  Rule rule_;
  AdaptiveParams params_;
};

template <Rule rule>
std::unique_ptr<Method> make_adaptive(const Config& config) {
  constexpr const char* group = rule == Rule::adagrad ? "method.fedadagrad"
                                : rule == Rule::adam  ? "method.fedadam"
                                                      : "method.fedyogi";
  return std::make_unique<FedOpt>(chosen_loss(config), rule, config.read<AdaptiveParams>(group));
}

}  // namespace

MethodEntry fedavgm_entry() {
  return {"fedavgm", groups::optimisers, "the server moves with momentum (Hsu 2019)",
          [](const Config& config) -> std::unique_ptr<Method> {
            const auto params = config.read<MomentumParams>("method.fedavgm");
            return std::make_unique<FedOpt>(chosen_loss(config), Rule::momentum,
                                            AdaptiveParams{.lr = params.lr, .beta1 = params.beta});
          },
          [](Schema& schema) { schema.add<MomentumParams>("method.fedavgm"); }};
}

MethodEntry fedadagrad_entry() {
  return {"fedadagrad", groups::optimisers, "the server takes Adagrad's step (Reddi 2021)",
          make_adaptive<Rule::adagrad>, [](Schema& schema) { schema.add<AdaptiveParams>("method.fedadagrad"); }};
}

MethodEntry fedadam_entry() {
  return {"fedadam", groups::optimisers, "the server takes Adam's step (Reddi 2021)", make_adaptive<Rule::adam>,
          [](Schema& schema) { schema.add<AdaptiveParams>("method.fedadam"); }};
}

MethodEntry fedyogi_entry() {
  return {"fedyogi", groups::optimisers, "the server takes Yogi's step (Reddi 2021)", make_adaptive<Rule::yogi>,
          [](Schema& schema) { schema.add<AdaptiveParams>("method.fedyogi"); }};
}

}  // namespace fedgrab
