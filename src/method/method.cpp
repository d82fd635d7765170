#include "fedgrab/method/method.h"

#include <numeric>

namespace fedgrab {

ClientRule Method::client_rule(const ClientView& view) const {
  objective_->begin_round(view.memory);
  ClientRule rule;
  rule.heads.push_back({objective_.get(), {}});
  return rule;
}

std::vector<Contribution> Method::contribute(const ClientView& view, const LocalResult& result) const {
  // FedAvg (McMahan et al. 2017): w ← Σ_k |D_k|/|D| w_k, BatchNorm statistics alike.
  return {{"state", result.local.flat, view.share, shared_bytes(*result.local.model)}};
}

void Method::server_rule(State& global, const Sums& sums, int64_t /*round*/, TensorMap& /*memory*/) const {
  adopt_shared(global, sums["state"]);
}

int64_t Method::bytes_down(const Model& model) const { return shared_bytes(model); }

void Method::adopt_shared(State& global, const torch::Tensor& average) const {
  for (const auto& [offset, size] : shared_ranges(*global.model))
    global.flat.narrow(0, offset, size).copy_(average.narrow(0, offset, size));
}

std::vector<Range> shared_ranges(const Model& model) {
  return model.ranges([](const ParameterInfo& p) { return p.role == Role::shared; });
}

int64_t shared_bytes(const Model& model) {
  const auto ranges = shared_ranges(model);
  return std::accumulate(ranges.begin(), ranges.end(), int64_t{0}, [](int64_t sum, const Range& range) {
    return sum + range.size * static_cast<int64_t>(sizeof(float));
  });
}

}  // namespace fedgrab
