#include "classifier_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fedgrab/core/error.h"
#include "fedgrab/core/progress.h"
#include "sparse_etf.h"

namespace fedgrab {
namespace {

constexpr double cosine_scale = 10;

template <class Visit>
void each_parameter(const Model& model, Visit visit) {
  const std::string prefix = model.heads.front().name + ".";
  for (const auto& p : model.parameters)
    if (p.name.starts_with(prefix)) visit(p);
}

}  // namespace

ClassifierHead::ClassifierHead(HeadParams params, const Head& wanted) : params_(params), head_(wanted) {
  if (params.kind == HeadChoice::linear && wanted.kind == HeadKind::cosine)
    throw Error(Fault::usage, "head.kind", "linear cannot be used with this loss, which is defined on cosines",
                "choose another --objective, or head.kind=cosine");
  if (params.kind == HeadChoice::cosine && wanted.kind == HeadKind::linear)
    head_ = {.kind = HeadKind::cosine, .bias = false, .scale = cosine_scale};
  if (params.scale > 0) head_.scale = params.scale;
  if (params.frozen) head_.role = Role::frozen;
  head_.projected = params.projected;
}

Needs ClassifierHead::needs(const Architecture& /*architecture*/, int64_t /*classes*/) const {
  if (params_.init != HeadInit::client_mean) return {};
  return {.own_start = OwnStart::first_round, .payloads = true};
}

void ClassifierHead::initialise(State& global, uint64_t seed) const {
  const Model& model = *global.model;
  if (params_.frozen && model.classes > model.architecture.features)
    warn(
        fmt::format("{} classes and {} features: a frozen head cannot separate them, and a trained one may do better "
                    "(choose a network with more features: a ResNet-18 or -34 has 512, a ResNet-50 2048)",
                    model.classes, model.architecture.features));
  if (params_.init == HeadInit::etf) initialise_etf(global, seed);
  if (params_.init == HeadInit::sparse_etf)
    make_sparse_etf(global.view(head_.name + ".weight"), params_.sparsity, params_.norm > 0 ? params_.norm : 1,
                    params_.steps, seed);
}

void ClassifierHead::initialise_etf(State& global, uint64_t seed) const {
  auto rows = global.view(head_.name + ".weight");
  make_etf(rows, seed);
  if (head_.kind == HeadKind::cosine) return;  // the norm does not matter
  // Random features have a norm of about the root of their number, and the gradients at the features are proportional
  // to the weight norm.
  rows.mul_(params_.norm > 0 ? params_.norm : 16 / std::sqrt(static_cast<double>(rows.size(1))));
  // The logit of a share of 1/M, so that no sigmoid starts at 0.5.
  global.view(head_.name + ".bias").fill_(-std::log(static_cast<double>(std::max<int64_t>(rows.size(0) - 1, 1))));
}

void ClassifierHead::before_training(const ClientContext& client, State& local, const LabelledFeatures* /*own*/) const {
  if (params_.init != HeadInit::client_mean || client.round.round != 1) return;
  each_parameter(*local.model, [&](const ParameterInfo& p) {
    fedgrab::initialise(local.view(p), p, client.round.seed, static_cast<uint32_t>(client.client + 1));
  });
}

std::vector<Payload> ClassifierHead::after_training(const ClientContext& client, const LocalResult& result) const {
  std::vector<Payload> sent;
  if (params_.init == HeadInit::client_mean && client.round.round == 1)
    each_parameter(*result.local.model, [&](const ParameterInfo& p) {
      sent.push_back(
          {p.name, result.local.view(p), Weighting::server_weights, p.size * static_cast<int64_t>(sizeof(float))});
    });
  return sent;
}

void ClassifierHead::server_step(const RoundContext& /*round*/, const Sums& sums, State& model,
                                 TensorMap& /*server*/) const {
  each_parameter(*model.model, [&](const ParameterInfo& p) {
    if (sums.contains(p.name)) model.view(p).copy_(sums[p.name].view(p.shape));
  });
}

}  // namespace fedgrab
