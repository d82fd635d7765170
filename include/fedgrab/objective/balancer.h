/// SGB, the self-adjusting gradient balancer: a PID controller per class that weighs positive against negative logit
/// gradients so that the difference of what a class has accumulated of both stays at a target (paper, Sec. 3.3).
///
/// In a LibTorch loop of your own:
///   fedgrab::Balancer balancer(classes);                    // once
///   auto [loss, gradient] = balancer.step(logits, labels);  // instead of a criterion
///   logits.backward(gradient);                              // instead of loss.backward()
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fedgrab/objective/balancer_params.h"
#include "fedgrab/objective/objective.h"

namespace fedgrab {

/// State of the controllers, five numbers per class: [.., classes] each. In double: G⁺ and G⁻ grow with every step, and
/// the controller uses their small difference.
struct BalancerState {
  torch::Tensor positive, negative;  // G⁺, G⁻: accumulated magnitudes of re-weighted gradients
  torch::Tensor error, error_sum;    // e of the step before, Σe
  torch::Tensor output;              // u

  static BalancerState zeros(at::IntArrayRef shape, torch::Device device = torch::kCPU);
  BalancerState to(torch::Device device) const;
  torch::Tensor difference() const { return positive - negative; }  // Δ
};

/// φ(x) = γ / (1 + δ e^(−ζx)).
torch::Tensor phi(const BalancerParams& params, const torch::Tensor& x);

struct BalancerWeights {
  torch::Tensor positive, negative;  // β⁺ = φ(u), β⁻ = φ(−u), before the gate
};

/// One controller step from the accumulated gradients: advances the error terms, returns the weights of this step.
/// Where `active` ([.., classes] or [.., 1], bool; undefined: everywhere) is false nothing is advanced.
BalancerWeights control(const BalancerParams& params, BalancerState& state, const torch::Tensor& active = {});

/// Re-weights the gradient of the base loss outside the exempt classes ([.., classes], bool; undefined: none) and
/// accumulates what it re-weighted.
torch::Tensor balance(const torch::Tensor& gradient, const BalancerWeights& weights, const torch::Tensor& exempt,
                      BalancerState& state);

/// All of it as an object with its own state.
class Balancer {
 public:
  explicit Balancer(int64_t classes, BalancerParams params = {}, uint64_t seed = 1);

  /// The prior of DPA: a class with a large share is mostly exempt. Undefined: no class is.
  void set_prior(torch::Tensor prior) { prior_ = std::move(prior); }
  /// Base loss and re-weighted logit gradient of one batch, on any device.
  LogitLoss step(const torch::Tensor& logits, const torch::Tensor& labels);
  /// The same with the gate's decisions given: [classes], bool; undefined: no class is exempt.
  LogitLoss step(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& exempt);

  BalancerState& state() { return state_; }
  const BalancerState& state() const { return state_; }
  const BalancerParams& params() const { return params_; }
  /// Steps so far: they choose the random numbers of the gate, so that a restored balancer draws the same.
  uint32_t steps() const { return steps_; }
  void restore(BalancerState state, uint32_t steps) {
    state_ = std::move(state);
    steps_ = steps;
  }

 private:
  BalancerParams params_;
  BalancerState state_;
  torch::Tensor prior_;
  uint64_t seed_;
  uint32_t steps_ = 0;
};

/// The balancer as an objective; its state is part of the client state, under "sgb.*".
class BalancedObjective : public Objective {
 public:
  explicit BalancedObjective(BalancerParams params) : params_(std::move(params)) {}
  const BalancerParams& params() const { return params_; }
  std::string one_label_reason() const override { return splits_by_sign; }
  int64_t uniforms(int64_t /*batch*/, int64_t classes) const override { return classes; }
  std::optional<KernelForm> kernel_form() const override;
  /// "delta", "beta_pos", "beta_neg".
  Diagnostics diagnose(const TensorMap& client_state) const override;
  /// The controllers in a client state, created if missing.
  static BalancerState state_in(TensorMap& client_state, at::IntArrayRef shape, torch::Device device);

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& client_state) const override;

 private:
  BalancerParams params_;
};

}  // namespace fedgrab
