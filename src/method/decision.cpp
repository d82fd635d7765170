#include "decision.h"

#include <algorithm>
#include <cmath>

namespace fedgrab {
namespace {

constexpr double smallest_share = 1e-2;  // or beside a row of zeros no other class would be raised

}  // namespace

State with_balanced_decision(const State& global, const torch::Tensor& prior, double shift) {
  const auto classes = static_cast<double>(global.model->classes);
  const double largest = prior.max().item<double>();
  if (classes < 3 || !(largest > 0)) return global;
  const auto rarity = -(prior / largest).clamp_min(smallest_share).log();
  const double span = std::max(rarity.max().item<double>(), std::log(2.0));
  const auto shifts = (shift / span * rarity).to(torch::kFloat).contiguous();
  auto model = std::make_shared<Model>(*global.model);
  Head& head = model->heads.front();
  head.shift.assign(shifts.data_ptr<float>(), shifts.data_ptr<float>() + shifts.numel());
  head.scale = 4.5 + std::log(classes - 1);  // a clear answer gets odds of e^4.5, whatever the number of the others
  return {std::move(model), global.flat};
}

}  // namespace fedgrab
