#include "fedgrab/method/method.h"

#include <algorithm>
#include <numeric>

#include "fedgrab/prior/prior.h"

namespace fedgrab {

Method::Method(LocalLoss loss) : objective_(std::move(loss.objective)), prior_(std::move(loss.prior)) {
  if (has_probe()) plain_ = make_objective("softmax", Config(Schema{}));
}

std::vector<Head> Method::heads() const {
  std::vector<Head> heads{objective_->head()};
  // The probe never classifies and sends nothing back: it exists for DPA to read.
  if (has_probe()) heads.push_back(Head{.name = "probe", .detached = true});
  return heads;
}

void Method::learn_counts(std::span<const int64_t> counts) {
  true_counts_ = torch::tensor(std::vector<float>(counts.begin(), counts.end()));
}

torch::Tensor Method::shared_prior(const State& global, int64_t /*round*/) const {
  return has_probe() ? prior_from_weights(global.view("probe.weight"), prior_.scale, prior_.span_min) : torch::Tensor();
}

torch::Tensor Method::class_sizes(const ClientView& view) const {
  if (prior_.source == "truth") return true_counts_;
  if (!has_probe()) return {};
  const auto prior = Method::shared_prior(view.global, view.round);
  // As if the client's own samples were spread so, and no class below one sample.
  const auto own = static_cast<double>(std::accumulate(view.counts.begin(), view.counts.end(), int64_t{0}));
  return prior * std::max(own / prior.sum().item<double>(), 1 / std::max(prior.min().item<double>(), 1e-6));
}

ClientRule Method::client_rule(const ClientView& view) const {
  objective_->begin_round(view.memory);
  ClientRule rule;
  rule.heads.push_back({objective_.get(), Method::shared_prior(view.global, view.round)});
  if (has_probe()) rule.heads.push_back({plain_.get(), {}});
  rule.class_sizes = class_sizes(view);
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
