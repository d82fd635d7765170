/// SGB, the self-adjusting gradient balancer: a PID controller per class that weighs positive against negative logit
/// gradients so that what a class has collected of both stays at a target difference (paper, Sec. 3.3).
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

#include "fedgrab/objective/objective.h"

namespace fedgrab {

struct BalancerParams {
  std::string form = "sigmoid";
  double kp = 10, ki = 0.01, kd = 0.1;
  double gamma = 10, delta = 9, zeta = 0.5;
  std::vector<double> target{0};
  double clamp = 100;
  bool hold = true;
  std::string mount = "all";
  std::vector<int64_t> mount_classes;
  int64_t mount_tail = 0;
  bool reset = false;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("form", form, "the plain loss whose gradient is balanced").one_of({"sigmoid", "softmax"});
    v.param("kp", kp, "K_P, gain on the error").between(0, 1e6);
    v.param("ki", ki, "K_I, gain on the sum of errors").between(0, 1e6);
    v.param("kd", kd, "K_D, gain on the change of the error").between(0, 1e6);
    v.param("gamma", gamma, "largest weight: phi(x) = gamma / (1 + delta exp(-zeta x))").between(1e-6, 1e6);
    v.param("delta", delta, "with gamma = 1 + delta a balanced class has weight 1").between(0, 1e6);
    v.param("zeta", zeta, "steepness of phi").between(0, 1e6);
    v.param("target", target,
            "z, wanted difference of collected positive and negative gradient; one, or one per class");
    v.param("clamp", clamp, "bound of the controller's output, where integration stops (0: none)").between(0, 1e12);
    v.param("hold", hold,
            "the controller of an exempt class rests; false: it goes on summing an error that nothing can change (the "
            "published code)");
    v.param("mount", mount,
            "which classes carry a balancer: all, the list mount_classes, or the mount_tail rarest by the prior")
        .one_of({"all", "list", "tail"});
    v.param("mount_classes", mount_classes, "class indices for mount = list").at_least(0);
    v.param("mount_tail", mount_tail, "number of classes for mount = tail").at_least(0);
    v.param("reset", reset, "start every round with an empty memory instead of keeping it over rounds");
  }
};

/// The controller's memory, five numbers per class: [.., classes] each. In double: G⁺ and G⁻ grow with every step, and
/// it is their small difference that steers.
struct BalancerState {
  torch::Tensor positive, negative;  // G⁺, G⁻: collected re-weighted gradient magnitudes
  torch::Tensor error, error_sum;    // e of the step before, Σe
  torch::Tensor output;              // u

  static BalancerState zeros(at::IntArrayRef shape, torch::Device device = torch::kCPU);
  torch::Tensor difference() const { return positive - negative; }  // Δ
};

/// φ(x) = γ / (1 + δ e^(−ζx)).
torch::Tensor phi(const BalancerParams& params, const torch::Tensor& x);

struct BalancerWeights {
  torch::Tensor positive, negative;  // β⁺ = φ(u), β⁻ = φ(−u), before the gate
};

/// One controller step from the collected gradients: advances the error memory, returns the weights of this step.
/// Where `active` ([.., classes] or [.., 1], bool; undefined: everywhere) is false nothing is advanced.
BalancerWeights control(const BalancerParams& params, BalancerState& state, const torch::Tensor& active = {});

/// Re-weights the plain gradient outside the exempt classes ([.., classes], bool; undefined: none) and collects
/// what it re-weighted.
torch::Tensor balance(const torch::Tensor& gradient, const BalancerWeights& weights, const torch::Tensor& exempt,
                      BalancerState& state);

/// The whole of it as an object with its own memory.
class Balancer {
 public:
  explicit Balancer(int64_t classes, BalancerParams params = {}, uint64_t seed = 1);

  /// The prior of DPA: a class with a large share is mostly exempt. Undefined: no class is.
  void set_prior(torch::Tensor prior) { prior_ = std::move(prior); }
  /// Plain loss and re-weighted logit gradient of one batch.
  LogitLoss step(const torch::Tensor& logits, const torch::Tensor& labels);
  /// The same with the gate's decisions given: [classes], bool; undefined: no class is exempt.
  LogitLoss step(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& exempt);

  BalancerState& state() { return state_; }
  const BalancerParams& params() const { return params_; }

 private:
  BalancerParams params_;
  BalancerState state_;
  torch::Tensor prior_;
  uint64_t seed_;
  uint32_t steps_ = 0;
};

/// The balancer as an objective; its state lives in the client's memory under "sgb.*".
class BalancedObjective : public Objective {
 public:
  explicit BalancedObjective(BalancerParams params) : params_(std::move(params)) {}
  const BalancerParams& params() const { return params_; }
  int64_t uniforms(int64_t /*batch*/, int64_t classes) const override { return classes; }
  std::optional<KernelForm> kernel_form() const override;
  void begin_round(TensorMap& memory) const override;
  /// "delta", "beta_pos", "beta_neg".
  Diagnostics diagnose(const TensorMap& memory) const override;
  /// Views of the state in a client's memory, made when missing.
  static BalancerState state_in(TensorMap& memory, at::IntArrayRef shape, torch::Device device);

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& memory) const override;

 private:
  BalancerParams params_;
};

}  // namespace fedgrab
