#include "privacy.h"

#include <cmath>

#include "fedgrab/core/random.h"

namespace fedgrab {
namespace {

constexpr double least_variance = 0.01;

}  // namespace

torch::Tensor clipped_update(const torch::Tensor& sent, const State& global, double clip) {
  const auto start = global.flat.to(sent.device());
  const auto ranges = shared_ranges(*global.model);
  double squares = 0;
  for (const auto& [offset, size] : ranges) {
    const auto moved = sent.narrow(0, offset, size) - start.narrow(0, offset, size);
    const double length = moved.norm(2, torch::kDouble).item<double>();
    squares += length * length;
  }
  const double norm = std::sqrt(squares);
  const double factor = norm > clip ? clip / norm : 1;
  auto values = start.clone();
  for (const auto& [offset, size] : ranges)
    values.narrow(0, offset, size).add_(sent.narrow(0, offset, size) - start.narrow(0, offset, size), factor);
  return values;
}

void add_noise(const RoundContext& round, const ServerParams& params, State& target) {
  const double deviation = params.noise * params.clip / static_cast<double>(round.cohort.size());
  Random random(round.seed, Purpose::privacy, 0, static_cast<uint32_t>(round.round));
  auto* values = target.flat.data_ptr<float>();
  for (const auto& [offset, size] : shared_ranges(*target.model))
    for (int64_t i = offset; i < offset + size; ++i) values[i] += static_cast<float>(deviation * random.normal());
  for (const auto& p : target.model->parameters)
    if (p.kind == ParameterKind::running_var) target.view(p).clamp_min_(least_variance);
}

}  // namespace fedgrab
