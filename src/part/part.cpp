#include "fedgrab/part/part.h"

#include <algorithm>
#include <cmath>

namespace fedgrab {
namespace {

int64_t bytes_of(const std::vector<Range>& ranges) {
  int64_t bytes = 0;
  for (const auto& range : ranges) bytes += range.size * static_cast<int64_t>(sizeof(float));
  return bytes;
}

}  // namespace

bool is_auxiliary(const Model& model, const ParameterInfo& p) {
  return std::any_of(model.heads.begin(), model.heads.end(),
                     [&](const Head& head) { return head.detached && p.name.starts_with(head.name + "."); });
}

std::vector<Range> shared_ranges(const Model& model) {
  return model.ranges([](const ParameterInfo& p) { return p.role == Role::shared; });
}

int64_t shared_bytes(const Model& model) { return bytes_of(shared_ranges(model)); }

std::vector<Range> optimised_ranges(const Model& model) {
  return model.ranges(
      [&](const ParameterInfo& p) { return p.trained() && p.role == Role::shared && !is_auxiliary(model, p); });
}

int64_t optimised_bytes(const Model& model) { return bytes_of(optimised_ranges(model)); }

std::vector<Range> statistics_ranges(const Model& model) {
  return model.ranges([](const ParameterInfo& p) { return p.buffer(); });
}

double effective_steps(int64_t steps, double momentum) {
  const auto t = static_cast<double>(steps);
  return (t - momentum * (1 - std::pow(momentum, t)) / (1 - momentum)) / (1 - momentum);
}

torch::Tensor flat_in(const TensorMap& state, const std::string& name, const State& like) {
  const auto found = state.find(name);
  return found == state.end() ? torch::zeros({like.model->size}, torch::kFloat) : found->second;
}

torch::Tensor to_tensor(std::span<const int64_t> counts) {
  return torch::tensor(std::vector<float>(counts.begin(), counts.end()));
}

}  // namespace fedgrab
