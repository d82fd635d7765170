#include "sgd.h"

#include <cmath>

namespace fedgrab {
namespace {

/// Factor that brings the gradient's norm down to `clip`; 1 where it is small enough.
float clip_factor(const float* gradient, const std::vector<Range>& ranges, double clip) {
  if (clip <= 0) return 1;
  double squares = 0;
  for (const auto& [offset, size] : ranges)
    for (int64_t i = offset; i < offset + size; ++i) squares += static_cast<double>(gradient[i]) * gradient[i];
  const double norm = std::sqrt(squares);
  return norm > clip ? static_cast<float>(clip / norm) : 1;
}

struct Coefficients {
  float lr, momentum, decay, proximal, clip;
};

void update(float* w, float* g, float* v, int64_t n, const Coefficients& c) {
  for (int64_t i = 0; i < n; ++i) {
    v[i] = c.momentum * v[i] + (c.clip * g[i] + c.decay * w[i]);
    w[i] -= c.lr * v[i];
    g[i] = 0;
  }
}

void update(float* w, float* g, float* v, const float* start, const float* correction, int64_t n,
            const Coefficients& c) {
  for (int64_t i = 0; i < n; ++i) {
    const float extra = correction == nullptr ? 0 : correction[i];
    v[i] = c.momentum * v[i] + (c.clip * g[i] + c.decay * w[i] + c.proximal * (w[i] - start[i]) + extra);
    w[i] -= c.lr * v[i];
    g[i] = 0;
  }
}

}  // namespace

Sgd::Sgd(const Model& model)
    : trained_(model.ranges([](const ParameterInfo& p) { return p.trained(); })),
      velocity_(torch::zeros({model.size}, torch::kFloat)) {
  for (const bool auxiliary : {false, true})
    for (const bool weights : {false, true})
      for (const Range& range : model.ranges([&](const ParameterInfo& p) {
             return p.trained() && is_auxiliary(model, p) == auxiliary && (p.kind == ParameterKind::weight) == weights;
           }))
        stretches_.push_back({range, auxiliary, weights});
}

void Sgd::step(Network& network, const State& global, const LocalProblem& problem, const TrainParams& params,
               double lr) {
  auto* w = network.state().flat.data_ptr<float>();
  auto* g = network.gradient().data_ptr<float>();
  auto* v = velocity_.data_ptr<float>();
  const Coefficients c{static_cast<float>(lr), static_cast<float>(params.momentum),
                       static_cast<float>(params.weight_decay), static_cast<float>(problem.proximal),
                       clip_factor(g, trained_, params.clip)};
  const bool has_terms = problem.proximal != 0 || problem.correction.defined();
  const auto* start = global.flat.data_ptr<float>();
  const float* correction = problem.correction.defined() ? problem.correction.data_ptr<float>() : nullptr;
  for (const auto& [range, auxiliary, weights] : stretches_) {
    const auto [offset, size] = range;
    Coefficients own = c;
    if (!weights && !params.decay_norms) own.decay = 0;
    if (has_terms && !auxiliary)
      update(w + offset, g + offset, v + offset, start + offset, correction == nullptr ? nullptr : correction + offset,
             size, own);
    else  // bit-identical to FedAvg
      update(w + offset, g + offset, v + offset, size, own);
  }
}

}  // namespace fedgrab
