#include "fedgrab.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "decision.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/prior/prior.h"

namespace fedgrab {
namespace {

torch::Tensor fixed_prior(const std::vector<double>& given, int64_t classes) {
  if (static_cast<int64_t>(given.size()) == classes) return torch::tensor(given, torch::kFloat);
  if (!given.empty())
    throw Error(Fault::usage, "method.fedgrab.fixed_prior",
                fmt::format("{} values for {} classes", given.size(), classes), "give one per class");
  return torch::pow(0.1,
                    torch::arange(classes, torch::kFloat) / static_cast<double>(std::max<int64_t>(classes - 1, 1)));
}

}  // namespace

FedGrab::FedGrab(FedGrabParams params, BalancerParams balancer)
    : Method(LocalLoss{std::make_unique<BalancedObjective>(balancer)}),
      params_(std::move(params)),
      balanced_(std::move(balancer)) {
  if (split() && params_.head_kind == "cosine")
    throw Error(Fault::usage, "method.fedgrab.head_kind",
                "cosine goes neither with warm-up nor with head_gradient = plain", "choose linear");
  plain_ = make_objective("softmax", Config(Schema{}));
}

std::vector<Head> FedGrab::heads() const {
  const bool cosine = params_.head_kind == "cosine";
  const bool scaled_rows = equal_angles() && !cosine;  // by initialise(), which knows how many features there are
  const double scale = scaled_rows ? 1 : params_.head_scale > 0 ? params_.head_scale : cosine ? 10 : 1;
  std::vector<Head> heads{Head{.kind = cosine ? HeadKind::cosine : HeadKind::linear,
                               .role = params_.head == "trained" || frozen_later() ? Role::shared : Role::frozen,
                               .detached = split(),
                               .bias = !cosine,
                               .scale = scale}};
  // The probe never classifies and sends nothing back: it exists for DPA to read.
  if (has_probe()) heads.push_back(Head{.name = "probe", .detached = true});
  return heads;
}

void FedGrab::warn_of_what_suits_badly(const Model& model) const {
  const Architecture& network = model.architecture;
  const double gamma = balanced_.params().gamma;
  // BatchNorm makes a backbone indifferent to how hard it is pulled.
  if (gamma > 5 && std::none_of(network.layers.begin(), network.layers.end(),
                                [](const Layer& layer) { return layer.kind == LayerKind::batch_norm; }))
    warn(
        fmt::format("{} has no BatchNorm, and balancers of weights up to {:g} may keep it from learning "
                    "(set objective.sgb.gamma=3 and objective.sgb.delta=2)",
                    network.name, gamma));
  if (equal_angles() && model.classes > network.features)
    warn(fmt::format(
        "{} classes and {} features: a frozen head has no room to keep them apart, and FedAvg may do better "
        "(choose a network with more features: a ResNet-18 or -34 has 512, a ResNet-50 2048)",
        model.classes, network.features));
}

void FedGrab::initialise(State& global, uint64_t seed) const {
  warn_of_what_suits_badly(*global.model);
  if (!equal_angles()) return;
  auto rows = global.view("fc.weight");
  make_etf(rows, seed);
  if (params_.head_kind == "cosine") return;
  // Features of a random start are as long as the root of their number; so are the gradients the rows send back.
  rows.mul_(params_.head_scale > 0 ? params_.head_scale : 16 / std::sqrt(static_cast<double>(rows.size(1))));
  const auto classes = static_cast<size_t>(global.model->classes);
  auto logits = params_.head_bias;
  if (logits.empty()) logits = {-std::log(static_cast<double>(std::max<size_t>(classes - 1, 1)))};
  if (logits.size() == 1) logits.resize(classes, logits.front());
  if (logits.size() != classes)
    throw Error(Fault::usage, "method.fedgrab.head_bias",
                fmt::format("{} values for {} classes", logits.size(), classes), "give one, or one per class");
  global.view("fc.bias").copy_(torch::tensor(logits));
}

void FedGrab::begin_round(int64_t round, uint64_t seed, std::span<const int64_t> clients,
                          std::span<const int64_t> sizes) {
  if (!params_.shuffled_weights) return;
  const auto total = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  const auto order = permutation(static_cast<int64_t>(sizes.size()),
                                 Random(seed, Purpose::averaging, 0, static_cast<uint32_t>(round)));
  shuffled_shares_.clear();
  for (size_t i = 0; i < clients.size(); ++i)
    shuffled_shares_[clients[i]] = static_cast<double>(sizes[static_cast<size_t>(order[i])]) / total;
}

void FedGrab::prepare(const ClientView& view, const State& local) const {
  if (prepares(view.round))
    for (const auto& p : local.model->parameters)
      if (p.name.starts_with("fc."))
        fedgrab::initialise(local.view(p), p, view.seed, static_cast<uint32_t>(view.client + 1));
}

torch::Tensor FedGrab::read_prior(const State& global, const std::string& scale) const {
  if (params_.prior == "probe") return prior_from_weights(global.view("probe.weight"), scale, params_.span_min);
  if (params_.prior == "head") return prior_from_weights(global.view("fc.weight"), scale, params_.span_min);
  if (params_.prior == "fixed") return fixed_prior(params_.fixed_prior, global.model->classes);
  if (params_.prior == "published") return stalled_prior(fixed_prior(params_.fixed_prior, global.model->classes));
  return {};
}

torch::Tensor FedGrab::shared_prior(const State& global, int64_t round) const {
  return warming_up(round) ? torch::Tensor() : read_prior(global, params_.prior_scale);
}

double FedGrab::shift_for(const Model& model) const {
  if (params_.shift >= 0) return params_.shift;
  if (model.classes > 12) return 0;  // 20 and 40 classes that were hardly learnt yet lost by it
  return model.architecture.features >= 256 ? 0.7 : 0.4;
}

State FedGrab::deployed(const State& global, const TensorMap& /*memory*/) const {
  const double shift = shift_for(*global.model);
  const auto prior = shift > 0 ? read_prior(global, "max") : torch::Tensor();
  return prior.defined() ? with_balanced_decision(global, prior, shift) : global;
}

ClientRule FedGrab::client_rule(const ClientView& view) const {
  balanced_.begin_round(view.memory);
  ClientRule rule;
  rule.heads.push_back({warming_up(view.round) ? plain_.get() : &balanced_, shared_prior(view.global, view.round)});
  if (params_.prior == "local" && !warming_up(view.round)) {
    const std::vector<float> counts(view.counts.begin(), view.counts.end());
    rule.heads.front().prior = scale_prior(torch::tensor(counts), params_.prior_scale, params_.span_min);
  }
  if (split()) {
    rule.heads.front().backbone = rule.heads.front().objective;
    rule.heads.front().objective = frozen_later() && !warming_up(view.round) ? nullptr : plain_.get();
  }
  if (has_probe()) rule.heads.push_back({plain_.get(), {}});
  return rule;
}

std::vector<Contribution> FedGrab::contribute(const ClientView& own, const LocalResult& result) const {
  ClientView view = own;
  if (const auto other = shuffled_shares_.find(own.client); other != shuffled_shares_.end()) view.share = other->second;
  auto sent = Method::contribute(view, result);
  if (params_.head == "frozen-mean" && view.round == 1)
    for (const auto& p : result.local.model->parameters)
      if (p.name.starts_with("fc."))
        sent.push_back({p.name, result.local.view(p), view.share, p.size * static_cast<int64_t>(sizeof(float))});
  return sent;
}

void FedGrab::server_rule(State& global, const Sums& sums, int64_t round, TensorMap& memory) const {
  Method::server_rule(global, sums, round, memory);
  for (const auto& p : global.model->parameters) {
    if (!p.name.starts_with("fc.")) continue;
    if (sums.contains(p.name)) global.view(p).copy_(sums[p.name].view(p.shape));
    if (params_.head == "follow") global.view(p).copy_(global.view("probe" + p.name.substr(2)));
  }
  if (has_probe() && params_.head != "follow") global.view("probe.weight").mul_(params_.probe_keep);
}

}  // namespace fedgrab
