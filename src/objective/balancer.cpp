#include "fedgrab/objective/balancer.h"

#include <algorithm>
#include <cmath>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

LogitLoss base_loss(const BalancerParams& params, const LogitBatch& batch) {
  return params.form == BaseLoss::softmax ? softmax_loss(batch) : sigmoid_loss(batch);
}

/// e = z − Δ. The sign is target minus measured; the paper's Δ − z would be positive feedback.
torch::Tensor error_of(const BalancerParams& params, const BalancerState& state) {
  return state.negative - state.positive + params.target;
}

/// Classes without a balancer: they are exempt in every step.
torch::Tensor unmounted(const BalancerParams& params, const LogitBatch& batch) {
  const auto classes = batch.logits.size(-1);
  auto without = torch::ones({classes}, batch.logits.options().dtype(torch::kBool));
  for (const int64_t c : params.mount_classes) {
    if (c >= classes)
      throw Error(Fault::usage, "objective.sgb.mount_classes", "there is no class " + std::to_string(c));
    without.narrow(0, c, 1).fill_(false);
  }
  return without;
}

/// Gate (Eq. 4): r ~ U(0, 1] per class and step; r ≤ P_j exempts the class. Undefined: none is.
torch::Tensor draw_exempt(const BalancerParams& params, const LogitBatch& batch) {
  torch::Tensor exempt;
  if (batch.prior.defined()) exempt = (1 - uniform(batch, batch.logits.size(-1))) <= batch.prior;
  if (params.mount == Mount::all) return exempt;
  const auto without = unmounted(params, batch);
  return exempt.defined() ? exempt.logical_or(without) : without;
}

/// Controllers that are advanced in this step: not those of a slot without a sample and, under conditional integration,
/// not those of exempt classes. An exempt class accumulates nothing, so its error is constant; integrated over many
/// rounds, it would make the output overshoot as soon as the class is no longer exempt.
torch::Tensor advanced(const BalancerParams& params, const torch::Tensor& exempt, const torch::Tensor& has_sample) {
  if (!params.conditional_integration || !exempt.defined()) return has_sample;
  const auto gated = exempt.logical_not();
  return has_sample.defined() ? gated.logical_and(has_sample) : gated;
}

}  // namespace

BalancerState BalancerState::zeros(at::IntArrayRef shape, torch::Device device) {
  const auto zero = [&] { return torch::zeros(shape, torch::TensorOptions().dtype(torch::kDouble).device(device)); };
  return {zero(), zero(), zero(), zero(), zero()};
}

BalancerState BalancerState::to(torch::Device device) const {
  return {positive.to(device), negative.to(device), error.to(device), error_sum.to(device), output.to(device)};
}

torch::Tensor phi(const BalancerParams& params, const torch::Tensor& x) {
  // = γ σ(ζx − ln δ), which neither overflows nor meets 0 · ∞
  return (x * params.zeta).sub_(std::log(params.delta)).sigmoid_().mul_(params.gamma);
}

BalancerWeights control(const BalancerParams& params, BalancerState& state, const torch::Tensor& active) {
  auto error = error_of(params, state);
  auto sum = state.error_sum + error;
  auto output = (error * params.kp).add_(sum, params.ki).add_(error - state.error, params.kd);
  if (active.defined()) {
    error = torch::where(active, error, state.error);
    sum = torch::where(active, sum, state.error_sum);
    output = torch::where(active, output, state.output);
  }
  state.error.copy_(error);
  if (params.clamp > 0) {
    // Integration stops while the output is clamped, so that the controller answers at once when the error turns.
    torch::clamp_out(state.output, output, -params.clamp, params.clamp);
    state.error_sum.copy_(torch::where(state.output == output, sum, state.error_sum));
  } else {
    state.output.copy_(output);
    state.error_sum.copy_(sum);
  }
  return {phi(params, state.output), phi(params, -state.output)};
}

torch::Tensor balance(const torch::Tensor& gradient, const BalancerWeights& weights, const torch::Tensor& exempt,
                      BalancerState& state) {
  const auto gated = [&](const torch::Tensor& values, double when_exempt) {
    return exempt.defined() ? values.masked_fill(exempt, when_exempt) : values;
  };
  const auto weight = [&](const torch::Tensor& beta) {
    return gated(beta, 1).to(gradient.scalar_type()).unsqueeze(-2);
  };
  // σ − 1[j = y] is negative at the label and nowhere else, so its sign tells the two kinds apart.
  auto balanced = gradient * torch::where(gradient < 0, weight(weights.positive), weight(weights.negative));
  state.positive.sub_(gated(balanced.clamp_max(0).sum(-2), 0));
  state.negative.add_(gated(balanced.clamp_min(0).sum(-2), 0));
  return balanced;
}

Balancer::Balancer(int64_t classes, BalancerParams params, uint64_t seed)
    : params_(std::move(params)), state_(BalancerState::zeros({classes})), seed_(seed) {}

LogitLoss Balancer::step(const torch::Tensor& logits, const torch::Tensor& labels) {
  LogitBatch batch{.logits = logits.detach(), .labels = labels};
  if (prior_.defined()) batch.prior = prior_.to(logits.device());
  batch.randoms = {Random(seed_, Purpose::gate, 0, 0, steps_)};
  return step(logits, labels, draw_exempt(params_, batch));
}

LogitLoss Balancer::step(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& exempt) {
  const torch::NoGradGuard no_graph;
  ++steps_;
  if (state_.positive.device() != logits.device()) state_ = state_.to(logits.device());
  const LogitBatch batch{.logits = logits.detach(), .labels = labels};
  const auto weights = control(params_, state_, advanced(params_, exempt, {}));
  auto [loss, gradient] = base_loss(params_, batch);
  return {loss, balance(gradient, weights, exempt, state_)};
}

std::optional<KernelForm> BalancedObjective::kernel_form() const {
  if (params_.mount != Mount::all) return {};
  return KernelForm{params_.form == BaseLoss::sigmoid, &params_};
}

Diagnostics BalancedObjective::diagnose(const TensorMap& client_state) const {
  if (!client_state.contains("sgb.positive")) return {};
  const auto& output = client_state.at("sgb.output");
  return {{"delta", to_vector(client_state.at("sgb.positive") - client_state.at("sgb.negative"))},
          {"beta_pos", to_vector(phi(params_, output))},
          {"beta_neg", to_vector(phi(params_, -output))}};
}

BalancerState BalancedObjective::state_in(TensorMap& client_state, at::IntArrayRef shape, torch::Device device) {
  if (!client_state.contains("sgb.positive")) {
    const auto fresh = BalancerState::zeros(shape, device);
    client_state["sgb.positive"] = fresh.positive;
    client_state["sgb.negative"] = fresh.negative;
    client_state["sgb.error"] = fresh.error;
    client_state["sgb.error_sum"] = fresh.error_sum;
    client_state["sgb.output"] = fresh.output;
  }
  return {client_state["sgb.positive"], client_state["sgb.negative"], client_state["sgb.error"],
          client_state["sgb.error_sum"], client_state["sgb.output"]};
}

LogitLoss BalancedObjective::evaluate(const LogitBatch& batch, TensorMap& client_state) const {
  auto shape = batch.logits.sizes().vec();
  shape.erase(shape.end() - 2);
  auto state = state_in(client_state, shape, batch.logits.device());
  const auto exempt = draw_exempt(params_, batch);  // may throw, and then nothing has changed
  // The gradient of a slot without a sample is 0, so what it accumulated stays as it is.
  const auto has_sample = batch.mask.defined() ? batch.mask.amax(-1, true) > 0 : torch::Tensor();
  const auto weights = control(params_, state, advanced(params_, exempt, has_sample));
  auto [loss, gradient] = base_loss(params_, batch);
  return {loss, balance(gradient, weights, exempt, state)};
}

}  // namespace fedgrab
