#include "fedgrab/objective/balancer.h"

#include <algorithm>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

LogitLoss plain_loss(const BalancerParams& params, const LogitBatch& batch) {
  return params.form == "softmax" ? softmax_loss(batch) : sigmoid_loss(batch);
}

torch::Tensor target_of(const BalancerParams& params, const torch::Tensor& like) {
  const auto classes = static_cast<size_t>(like.size(-1));
  if (params.target.size() != 1 && params.target.size() != classes)
    throw Error(Fault::usage, "objective.sgb.target",
                std::to_string(params.target.size()) + " values for " + std::to_string(classes) + " classes",
                "give one, or one per class");
  return torch::tensor(params.target, torch::kFloat).to(like.device());
}

/// Classes without a balancer: they are exempt in every step.
torch::Tensor unmounted(const BalancerParams& params, const LogitBatch& batch) {
  const auto classes = batch.logits.size(-1);
  auto mounted = torch::zeros({classes}, torch::kBool);
  if (params.mount == "tail") {
    if (!batch.prior.defined())
      throw Error(Fault::usage, "objective.sgb.mount", "tail needs a prior", "set method.fedgrab.prior");
    const auto k = std::min(params.mount_tail, classes);
    const auto rarest = std::get<1>(batch.prior.topk(k, -1, /*largest=*/false));
    return torch::ones_like(batch.prior, torch::kBool).scatter_(-1, rarest, false);
  }
  for (const int64_t c : params.mount_classes) {
    if (c >= classes)
      throw Error(Fault::usage, "objective.sgb.mount_classes", "there is no class " + std::to_string(c));
    mounted[c] = true;
  }
  return mounted.logical_not().to(batch.logits.device());
}

/// Gate (Eq. 4): r ~ U(0, 1] per class and step; r ≤ P_j exempts the class.
torch::Tensor draw_exempt(const BalancerParams& params, const LogitBatch& batch) {
  auto shape = batch.logits.sizes().vec();
  shape.erase(shape.end() - 2);
  auto exempt = torch::zeros(shape, batch.logits.options().dtype(torch::kBool));
  if (batch.prior.defined()) exempt = (1 - uniform(batch, batch.logits.size(-1))) <= batch.prior;
  if (params.mount != "all") exempt = exempt.logical_or(unmounted(params, batch));
  return exempt;
}

}  // namespace

BalancerState BalancerState::zeros(at::IntArrayRef shape, torch::Device device) {
  const auto zero = [&] { return torch::zeros(shape, torch::TensorOptions().dtype(torch::kFloat).device(device)); };
  return {zero(), zero(), zero(), zero(), zero()};
}

torch::Tensor phi(const BalancerParams& params, const torch::Tensor& x) {
  return params.gamma / (1 + params.delta * (x * -params.zeta).exp());
}

BalancerWeights control(const BalancerParams& params, BalancerState& state) {
  // The sign is target minus measured; the paper's Δ − z would be positive feedback.
  const auto error = target_of(params, state.positive) - state.difference();
  const auto sum = state.error_sum + error;
  const auto output = params.kp * error + params.ki * sum + params.kd * (error - state.error);
  if (params.clamp > 0) {
    // Integration stops while the output is clamped, so that the controller answers at once when the error turns.
    state.error_sum.copy_(torch::where(output.abs() > params.clamp, state.error_sum, sum));
    state.output.copy_(output.clamp(-params.clamp, params.clamp));
  } else {
    state.error_sum.copy_(sum);
    state.output.copy_(output);
  }
  state.error.copy_(error);
  return {phi(params, state.output), phi(params, -state.output)};
}

torch::Tensor balance(const LogitBatch& batch, const torch::Tensor& gradient, const BalancerWeights& weights,
                      const torch::Tensor& exempt, BalancerState& state) {
  const auto is_label = one_hot(batch).to(torch::kBool);
  const auto gated = [&](const torch::Tensor& beta) { return beta.masked_fill(exempt, 1).unsqueeze(-2); };
  const auto balanced = gradient * torch::where(is_label, gated(weights.positive), gated(weights.negative));
  const auto magnitude = balanced.abs().masked_fill(exempt.unsqueeze(-2), 0);
  const auto positive = magnitude.masked_fill(is_label.logical_not(), 0).sum(-2);
  state.positive.add_(positive);
  state.negative.add_(magnitude.masked_fill(is_label, 0).sum(-2));
  return balanced;
}

Balancer::Balancer(int64_t classes, BalancerParams params, uint64_t seed)
    : params_(std::move(params)), state_(BalancerState::zeros({classes})), seed_(seed) {}

LogitLoss Balancer::step(const torch::Tensor& logits, const torch::Tensor& labels) {
  LogitBatch batch{.logits = logits.detach(), .labels = labels};
  batch.prior = prior_;
  batch.randoms = {Random(seed_, Purpose::gate, 0, 0, steps_)};
  return step(logits, labels, draw_exempt(params_, batch));
}

LogitLoss Balancer::step(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& exempt) {
  const torch::NoGradGuard no_graph;
  ++steps_;
  const LogitBatch batch{.logits = logits.detach(), .labels = labels};
  const auto weights = control(params_, state_);
  auto [loss, gradient] = plain_loss(params_, batch);
  return {loss, balance(batch, gradient, weights, exempt, state_)};
}

BalancerState BalancedObjective::state_in(TensorMap& memory, at::IntArrayRef shape, torch::Device device) {
  if (!memory.contains("sgb.positive")) {
    const auto fresh = BalancerState::zeros(shape, device);
    memory["sgb.positive"] = fresh.positive;
    memory["sgb.negative"] = fresh.negative;
    memory["sgb.error"] = fresh.error;
    memory["sgb.error_sum"] = fresh.error_sum;
    memory["sgb.output"] = fresh.output;
  }
  return {memory["sgb.positive"], memory["sgb.negative"], memory["sgb.error"], memory["sgb.error_sum"],
          memory["sgb.output"]};
}

LogitLoss BalancedObjective::evaluate(const LogitBatch& batch, TensorMap& memory) const {
  auto shape = batch.logits.sizes().vec();
  shape.erase(shape.end() - 2);
  auto state = state_in(memory, shape, batch.logits.device());
  const auto weights = control(params_, state);
  auto [loss, gradient] = plain_loss(params_, batch);
  return {loss, balance(batch, gradient, weights, draw_exempt(params_, batch), state)};
}

}  // namespace fedgrab
