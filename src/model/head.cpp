#include "fedgrab/model/head.h"

#include <algorithm>
#include <cmath>

#include "epsilon.h"

namespace fedgrab {
namespace {

torch::Tensor unit(const torch::Tensor& v) { return v / v.norm(2, {-1}, true).clamp_min(cosine_epsilon); }

/// One class alone above M − 1 equal ones: its distance from them is M / √(M − 1) standard deviations.
torch::Tensor standardise(const torch::Tensor& logits) {
  const auto classes = static_cast<double>(logits.size(-1));
  return logits * (std::sqrt(std::max(classes - 1, 1.0)) / classes) /
         logits.std(-1, false, true).clamp_min(smallest_spread);
}

torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
  if (weight.dim() == 2) return at::linear(x, weight, bias);
  const auto y = torch::matmul(x, weight.transpose(-1, -2));
  return bias.defined() ? y + bias.unsqueeze(-2) : y;
}

}  // namespace

torch::Tensor head_logits(const Head& head, const torch::Tensor& features,
                          const std::function<torch::Tensor(const std::string& suffix)>& parameter) {
  torch::Tensor x = features, weight = parameter(".weight");
  if (head.projected) x = linear(x, parameter(".projection.weight"), parameter(".projection.bias"));
  if (head.kind == HeadKind::cosine) {
    x = unit(x);
    weight = unit(weight);
  }
  auto logits = linear(x, weight, head.bias ? parameter(".bias") : torch::Tensor());
  if (head.projected) logits = logits * parameter(".temperature").unsqueeze(-1);
  if (!head.shift.empty()) logits = standardise(logits) + torch::tensor(head.shift).to(logits.device());
  if (head.scale != 1) logits = logits * head.scale;
  return head.offset.empty() ? logits : logits + torch::tensor(head.offset).to(logits.device());
}

}  // namespace fedgrab
