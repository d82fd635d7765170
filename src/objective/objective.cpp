#include "fedgrab/objective/objective.h"

#include "fedgrab/core/error.h"

namespace fedgrab {

LogitLoss Objective::operator()(const LogitBatch& batch, TensorMap& client_state) const {
  TORCH_CHECK(batch.logits.dim() >= 2, "logits must be [.., batch, classes]");
  TORCH_CHECK(batch.labels.sizes() == batch.logits.sizes().slice(0, static_cast<size_t>(batch.logits.dim() - 1)),
              "labels must be [.., batch] like the logits");
  TORCH_CHECK(batch.other_labels.defined() == batch.share.defined(), "two labels need a share");
  TORCH_CHECK(!batch.other_labels.defined() || mixes(), "the loss takes one label per sample");
  const torch::NoGradGuard no_graph;
  return evaluate(batch, client_state);
}

torch::Tensor mean_weights(const LogitBatch& batch) {
  torch::Tensor share;
  if (batch.mask.defined())
    share = batch.mask / batch.mask.sum(-1, true).clamp_min(1);
  else
    share = torch::full(batch.labels.sizes(), 1.0 / static_cast<double>(batch.labels.size(-1)), batch.logits.options());
  return batch.weights.defined() ? share * batch.weights : share;
}

torch::Tensor one_hot(const LogitBatch& batch) {
  return torch::zeros_like(batch.logits).scatter_(-1, batch.labels.unsqueeze(-1), 1);
}

torch::Tensor targets(const LogitBatch& batch) {
  const auto label = one_hot(batch);
  if (!batch.other_labels.defined()) return label;
  const auto other = torch::zeros_like(batch.logits).scatter_(-1, batch.other_labels.unsqueeze(-1), 1);
  const auto share = batch.share.unsqueeze(-1);
  return label * share + other * (1 - share);
}

void weigh_by_class(LogitBatch& batch, const torch::Tensor& class_weights) {
  batch.weights = class_weights.gather(-1, batch.labels);
  if (!batch.other_labels.defined()) return;
  // λ w_y L(y) + (1 − λ) w_y' L(y') as w (λ' L(y) + (1 − λ') L(y'))
  const auto own = batch.share * batch.weights;
  batch.weights = own + (1 - batch.share) * class_weights.gather(-1, batch.other_labels);
  batch.share = own / batch.weights.clamp_min(1e-30);
}

std::vector<double> to_vector(const torch::Tensor& tensor) {
  const auto numbers = tensor.to(torch::kDouble).cpu().contiguous();
  return {numbers.data_ptr<double>(), numbers.data_ptr<double>() + numbers.numel()};
}

torch::Tensor uniform(const LogitBatch& batch, int64_t n) {
  if (batch.uniforms.defined()) return batch.uniforms.narrow(-1, 0, n);
  const auto slots = static_cast<int64_t>(batch.randoms.size());
  auto numbers = torch::empty({slots, n}, torch::kFloat);
  auto* data = numbers.data_ptr<float>();
  for (Random random : batch.randoms)
    for (int64_t i = 0; i < n; ++i) *data++ = random.uniform();
  auto shape = batch.logits.sizes().slice(0, static_cast<size_t>(batch.logits.dim() - 2)).vec();
  shape.push_back(n);
  return numbers.view(shape).to(batch.logits.device());
}

}  // namespace fedgrab
