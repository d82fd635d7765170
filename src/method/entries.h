/// What the method files share: one function each for the registry.
#pragma once

#include <cmath>

#include "fedgrab/method/method.h"

namespace fedgrab {

/// What an optimiser moves and the server averages: the rest of the shared part is BatchNorm's statistics.
inline std::vector<Range> moved_ranges(const Model& model) {
  return model.ranges([](const ParameterInfo& p) { return p.trained() && p.role == Role::shared; });
}

inline int64_t moved_bytes(const Model& model) {
  int64_t bytes = 0;
  for (const auto& range : moved_ranges(model)) bytes += range.size * static_cast<int64_t>(sizeof(float));
  return bytes;
}

/// How far steps of equal gradients go, in steps without momentum: ‖a‖₁ = [τ − m(1 − m^τ)/(1 − m)]/(1 − m).
inline double effective_steps(int64_t steps, double momentum) {
  const auto t = static_cast<double>(steps);
  return (t - momentum * (1 - std::pow(momentum, t)) / (1 - momentum)) / (1 - momentum);
}

/// chosen_loss() for methods whose rule needs a plain linear head; a loss that asks for another one is refused.
LocalLoss linear_loss(const Config& config, const std::string& fallback);

/// The entry of a method by its class: made from its loss (Rule::usual_loss where none is chosen, else softmax) and,
/// where it has parameters, Rule::Params, which are declared under method.NAME.
template <class Rule, LocalLoss (*loss_of)(const Config&, const std::string&) = chosen_loss>
MethodEntry entry_of(const char* heading, const char* summary) {
  static const std::string group = std::string("method.") + Rule::name;
  MethodEntry entry{Rule::name, heading, summary, [](const Config& config) -> std::unique_ptr<Method> {
                      std::string fallback = "softmax";
                      if constexpr (requires { Rule::usual_loss; }) fallback = Rule::usual_loss;
                      if constexpr (requires { typename Rule::Params; })
                        return std::make_unique<Rule>(loss_of(config, fallback),
                                                      config.read<typename Rule::Params>(group));
                      else
                        return std::make_unique<Rule>(loss_of(config, fallback));
                    }};
  if constexpr (requires { typename Rule::Params; })
    entry.declare = [](Schema& schema) { schema.add<typename Rule::Params>(group); };
  return entry;
}

/// A flat state of the model's size in a memory, zeros where there is none yet.
inline torch::Tensor flat_in(const TensorMap& memory, const std::string& name, const State& like) {
  const auto found = memory.find(name);
  return found == memory.end() ? torch::zeros({like.model->size}, torch::kFloat) : found->second;
}

/// Headings of `fedgrab run --method help`.
namespace groups {
constexpr const char* federated = "federated learning";
constexpr const char* optimisers = "against client drift, and optimisers of the server";
constexpr const char* long_tailed = "for the long tail";
constexpr const char* losses = "FedAvg with a loss for the long tail (also: any --method with --objective)";
constexpr const char* centralised = "all data in one place: the upper bound";
}  // namespace groups

MethodEntry fedprox_entry();
MethodEntry fednova_entry();
MethodEntry fedavgm_entry();
MethodEntry fedadagrad_entry();
MethodEntry fedadam_entry();
MethodEntry fedyogi_entry();
MethodEntry fedir_entry();
MethodEntry scaffold_entry();
MethodEntry feddyn_entry();
MethodEntry moon_entry();
MethodEntry tau_norm_entry();
MethodEntry dpa_shift_entry();
MethodEntry creff_entry();
MethodEntry fedetf_entry();
MethodEntry fedloge_entry();

}  // namespace fedgrab
