#include "local_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "fedgrab/core/progress.h"
#include "fedgrab/objective/balancer.h"

namespace fedgrab {

LocalLoss::LocalLoss(const Config& config, const ClassPrior* prior)
    : params_(config.read<ObjectiveParams>("objective")),
      prior_params_(config.read<PriorParams>("prior")),
      prior_(prior),
      objective_(make_objective(params_.name, config)) {
  if (dynamic_cast<const BalancedObjective*>(objective_.get()) != nullptr)
    gate_ = config.read<BalancerParams>("objective.sgb").gate;
  const bool wanted = gate_ == Gate::prior || gate_ == Gate::stalled || params_.class_sizes == ClassSizes::prior;
  if (wanted && prior == nullptr)
    throw Error(Fault::usage, params_.class_sizes == ClassSizes::prior ? "objective.class_sizes" : "objective.sgb.gate",
                "needs an estimate of the class prior", "set prior.source, such as dpa");
  if (const auto reason = objective_->one_label_reason(); !reason.empty())
    hard_labels_ = fmt::format("objective.name = \"{}\" {}", params_.name, reason);
  else if (params_.collect)
    hard_labels_ = fmt::format("objective.collect {}", splits_by_sign);
  if (params_.collect) objective_ = collecting(std::move(objective_));
}

Needs LocalLoss::needs(const Architecture& /*architecture*/, int64_t /*classes*/) const {
  return {.global_counts = params_.reweight == Reweight::importance, .hard_labels = hard_labels_};
}

void LocalLoss::initialise(State& global, uint64_t /*seed*/) const {
  const auto* balanced = dynamic_cast<const BalancedObjective*>(objective_.get());
  const Architecture& network = global.model->architecture;
  // BatchNorm makes a backbone insensitive to the size of its gradients.
  if (balanced != nullptr && balanced->params().gamma > 5 &&
      std::none_of(network.layers.begin(), network.layers.end(),
                   [](const Layer& layer) { return layer.kind == LayerKind::batch_norm; }))
    warn(
        fmt::format("{} has no BatchNorm, and balancers with weights up to {:g} may keep it from learning "
                    "(set objective.sgb.gamma=3 and objective.sgb.delta=2)",
                    network.name, balanced->params().gamma));
}

torch::Tensor LocalLoss::scaled(const torch::Tensor& values) const {
  return scale_prior(values, prior_params_.scale, prior_params_.span_min);
}

torch::Tensor LocalLoss::gate(const RoundContext& round) const {
  if (gate_ == Gate::off || gate_ == Gate::local || !round.prior.defined()) return {};
  const auto prior = prior_->meaning() == PriorMeaning::probabilities ? round.prior : scaled(round.prior);
  return gate_ == Gate::stalled ? stalled_prior(prior) : prior;
}

torch::Tensor LocalLoss::class_sizes(const ClientContext& client) const {
  const auto& estimate = client.round.prior;
  if (params_.class_sizes == ClassSizes::local || !estimate.defined()) return {};
  if (estimate.is_same(client.round.global_counts)) return estimate;  // these are sizes already
  const auto prior = prior_->meaning() == PriorMeaning::order ? scaled(estimate) : estimate;
  // As if the client's own samples were spread so, and no class below one sample.
  const auto own = static_cast<double>(std::accumulate(client.counts.begin(), client.counts.end(), int64_t{0}));
  return prior * std::max(own / prior.sum().item<double>(), 1 / std::max(prior.min().item<double>(), 1e-6));
}

void LocalLoss::configure(const ClientContext& client, LocalProblem& problem) const {
  auto& classifier = problem.heads.front();
  classifier = {objective_.get(), gate_ == Gate::local ? scaled(to_tensor(client.counts)) : gate(client.round)};
  problem.class_sizes = class_sizes(client);
  if (params_.reweight == Reweight::none) return;
  // FedIR (Hsu et al. 2020, Eq. 4): p(y)/q_k(y). A class without samples has weight 0, not infinity.
  const auto own = to_tensor(client.counts);
  const auto target = client.round.global_counts / client.round.global_counts.sum();
  problem.class_weights = torch::where(own > 0, target * own.sum() / own.clamp_min(1), torch::zeros_like(own));
}

}  // namespace fedgrab
