#include "sparse_etf.h"

#include "fedgrab/core/random.h"
#include "fedgrab/model/state.h"

namespace fedgrab {

void make_sparse_etf(const torch::Tensor& weight, double sparsity, double length, int64_t steps, uint64_t seed) {
  const torch::AutoGradMode graph(true);
  auto rows = torch::empty_like(weight);
  make_etf(rows, seed);
  auto mask = torch::ones_like(rows);
  Random random(seed, Purpose::server, 3);
  for (auto* m = mask.data_ptr<float>(); m != mask.data_ptr<float>() + mask.numel(); ++m)
    if (random.uniform() < sparsity) *m = 0;
  mask.masked_fill_((rows * mask).norm(2, {1}, true) == 0, 1);  // a row of zeros would be no class at all
  const auto unit = [](const torch::Tensor& v) { return v / v.norm(2, {1}, true).clamp_min(1e-12); };
  rows = (unit(rows * mask) * length).detach();
  const int64_t classes = rows.size(0);
  if (classes > 1 && steps > 0) {
    rows.requires_grad_();
    torch::optim::Adam adam({rows}, torch::optim::AdamOptions(1e-3 * length));
    const auto itself = torch::eye(classes) * 4;
    for (int64_t step = 0; step < steps; ++step) {
      adam.zero_grad();
      const auto directions = unit(rows);
      const auto nearest = std::get<0>((directions.matmul(directions.t()) - itself).max(1));
      const auto stray = ((rows.norm(2, {1}) - length) / length).square().sum();
      (stray - torch::acos(nearest.clamp(-0.99999, 0.99999)).mean()).backward();
      rows.mutable_grad().mul_(mask);
      adam.step();
    }
  }
  const torch::NoGradGuard no_graph;
  weight.copy_(unit(rows) * length);
}

}  // namespace fedgrab
