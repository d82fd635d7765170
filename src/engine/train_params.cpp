#include "fedgrab/engine/train_params.h"

#include <algorithm>
#include <cmath>

namespace fedgrab {

double learning_rate(const TrainParams& params, int64_t round) {
  const int64_t warmup = params.warmup_rounds;
  if (round <= warmup) return params.lr * static_cast<double>(round) / static_cast<double>(warmup + 1);
  const auto done = static_cast<double>(round - 1 - warmup);
  if (params.schedule == Schedule::cosine) {
    const double falling = 0.5 * (1 + std::cos(M_PI * done / static_cast<double>(params.rounds - warmup)));
    return params.lr * (params.final_lr + (1 - params.final_lr) * falling);
  }
  if (params.schedule == Schedule::exponential) return params.lr * std::pow(params.lr_decay, done);
  if (params.schedule == Schedule::step) {
    const auto passed = std::count_if(params.lr_milestones.begin(), params.lr_milestones.end(),
                                      [&](int64_t milestone) { return round > milestone; });
    return params.lr * std::pow(params.lr_decay, static_cast<double>(passed));
  }
  return params.lr;
}

}  // namespace fedgrab
