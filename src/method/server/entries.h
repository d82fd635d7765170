/// The aggregators' and server optimisers' entries, one function each for the registries.
#pragma once

#include "fedgrab/method/aggregator.h"
#include "fedgrab/method/server_optimizer.h"

namespace fedgrab {

Choice<Aggregator> nova_entry();

Choice<ServerOptimizer> momentum_entry();
Choice<ServerOptimizer> adagrad_entry();
Choice<ServerOptimizer> adam_entry();
Choice<ServerOptimizer> yogi_entry();

/// An optimiser whose parameters are server.*.
template <class Optimizer>
Choice<ServerOptimizer> optimizer_entry(const char* name, const char* summary) {
  return {name, summary, [](const Config& config) -> std::unique_ptr<ServerOptimizer> {
            return std::make_unique<Optimizer>(config.read<ServerParams>("server"));
          }};
}

/// A tensor of the optimiser's state, filled with `start` at first.
inline torch::Tensor& kept(TensorMap& server, const std::string& name, const torch::Tensor& like, double start) {
  return server.try_emplace(name, torch::full_like(like, start)).first->second;
}

/// FedAdagrad, FedAdam and FedYogi (Reddi et al. 2021, Alg. 2): m ← β₁m + (1 − β₁)Δ, w ← w + ηm/(√v + τ). They differ
/// in the rule for v.
class Adaptive : public ServerOptimizer {
 public:
  explicit Adaptive(ServerParams params) : params_(std::move(params)) {}
  torch::Tensor step(const torch::Tensor& delta, const std::string& range, TensorMap& server) const override {
    auto& m = kept(server, range + ".m", delta, 0);
    auto& v = kept(server, range + ".v", delta, params_.tau * params_.tau);
    m.mul_(params_.beta1).add_(delta, 1 - params_.beta1);
    accumulate(v, delta.square());
    return m / (v.sqrt() + params_.tau) * (params_.lr > 0 ? params_.lr : 0.01);
  }

 protected:
  virtual void accumulate(torch::Tensor& v, const torch::Tensor& squared) const = 0;
  ServerParams params_;
};

}  // namespace fedgrab
