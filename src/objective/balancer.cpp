#include "fedgrab/objective/balancer.h"

#include <algorithm>
#include <cmath>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

LogitLoss plain_loss(const BalancerParams& params, const LogitBatch& batch) {
  return params.form == "softmax" ? softmax_loss(batch) : sigmoid_loss(batch);
}

/// Filled in place on a device: a copy from the host could not be recorded in a graph.
torch::Tensor on_device(const std::vector<double>& values, torch::Device device) {
  if (device.is_cpu()) return torch::tensor(values, torch::kDouble);
  auto tensor = torch::empty({static_cast<int64_t>(values.size())}, torch::dtype(torch::kDouble).device(device));
  for (size_t i = 0; i < values.size(); ++i) tensor.narrow(0, static_cast<int64_t>(i), 1).fill_(values[i]);
  return tensor;
}

/// e = z − Δ. The sign is target minus measured; the paper's Δ − z would be positive feedback.
torch::Tensor error_of(const BalancerParams& params, const BalancerState& state) {
  const auto classes = static_cast<size_t>(state.positive.size(-1));
  const auto below = state.negative - state.positive;
  if (params.target.size() == 1) return below + params.target.front();
  if (params.target.size() != classes)
    throw Error(Fault::usage, "objective.sgb.target",
                std::to_string(params.target.size()) + " values for " + std::to_string(classes) + " classes",
                "give one, or one per class");
  return below + on_device(params.target, below.device());
}

/// Classes without a balancer: they are exempt in every step.
torch::Tensor unmounted(const BalancerParams& params, const LogitBatch& batch) {
  const auto classes = batch.logits.size(-1);
  if (params.mount == "tail") {
    if (!batch.prior.defined())
      throw Error(Fault::usage, "objective.sgb.mount", "tail needs a prior", "set method.fedgrab.prior");
    const auto k = std::min(params.mount_tail, classes);
    const auto rarest = std::get<1>(batch.prior.topk(k, -1, /*largest=*/false));
    return torch::ones_like(batch.prior, torch::kBool).scatter_(-1, rarest, false);
  }
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
  if (params.mount == "all") return exempt;
  const auto without = unmounted(params, batch);
  return exempt.defined() ? exempt.logical_or(without) : without;
}

/// Which controllers take this step: none of a slot without a sample, and none of an exempt class. What an exempt class
/// has collected stands still, and so does its error: summed up over the rounds in which DPA takes it for the
/// commonest, a small one would break loose on the day another class is.
torch::Tensor moving(const BalancerParams& params, const torch::Tensor& exempt, const torch::Tensor& has_sample) {
  if (!params.hold || !exempt.defined()) return has_sample;
  const auto gated = exempt.logical_not();
  return has_sample.defined() ? gated.logical_and(has_sample) : gated;
}

}  // namespace

BalancerState BalancerState::zeros(at::IntArrayRef shape, torch::Device device) {
  const auto zero = [&] { return torch::zeros(shape, torch::TensorOptions().dtype(torch::kDouble).device(device)); };
  return {zero(), zero(), zero(), zero(), zero()};
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
  batch.prior = prior_;
  batch.randoms = {Random(seed_, Purpose::gate, 0, 0, steps_)};
  return step(logits, labels, draw_exempt(params_, batch));
}

LogitLoss Balancer::step(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& exempt) {
  const torch::NoGradGuard no_graph;
  ++steps_;
  const LogitBatch batch{.logits = logits.detach(), .labels = labels};
  const auto weights = control(params_, state_, moving(params_, exempt, {}));
  auto [loss, gradient] = plain_loss(params_, batch);
  return {loss, balance(gradient, weights, exempt, state_)};
}

void BalancedObjective::begin_round(TensorMap& memory) const {
  if (params_.reset) std::erase_if(memory, [](const auto& entry) { return entry.first.starts_with("sgb."); });
}

std::optional<KernelForm> BalancedObjective::kernel_form() const {
  if (params_.mount != "all" || params_.target.size() != 1) return {};
  return KernelForm{params_.form == "sigmoid", &params_};
}

Diagnostics BalancedObjective::diagnose(const TensorMap& memory) const {
  if (!memory.contains("sgb.positive")) return {};
  const auto& output = memory.at("sgb.output");
  return {{"delta", to_vector(memory.at("sgb.positive") - memory.at("sgb.negative"))},
          {"beta_pos", to_vector(phi(params_, output))},
          {"beta_neg", to_vector(phi(params_, -output))}};
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
  const auto exempt = draw_exempt(params_, batch);  // may object, and then nothing has changed
  // The gradient of a slot without a sample is 0, so its collectors stay as they are too.
  const auto has_sample = batch.mask.defined() ? batch.mask.amax(-1, true) > 0 : torch::Tensor();
  const auto weights = control(params_, state, moving(params_, exempt, has_sample));
  auto [loss, gradient] = plain_loss(params_, batch);
  return {loss, balance(gradient, weights, exempt, state)};
}

}  // namespace fedgrab
