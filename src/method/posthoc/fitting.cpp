#include "fitting.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace fedgrab {
namespace {

constexpr int most_steps = 50;
constexpr double most_tau = 4, precision = 1e-9;

double cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& weight) {
  const auto own = logits.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
  return -(own * weight).sum().item<double>();
}

/// Where a function with one minimum is smallest, by golden-section search.
double minimum(const std::function<double(double)>& function, double low, double high) {
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double a = high - ratio * (high - low), b = low + ratio * (high - low), at_a = function(a), at_b = function(b);
  while (high - low > 1e-4) {
    if (at_a <= at_b) {
      high = b, b = a, at_b = at_a;
      a = high - ratio * (high - low), at_a = function(a);
    } else {
      low = a, a = b, at_a = at_b;
      b = low + ratio * (high - low), at_b = function(b);
    }
  }
  return (low + high) / 2;
}

}  // namespace

torch::Tensor class_balanced_weights(const torch::Tensor& labels, int64_t classes, double balance) {
  const auto counts = torch::bincount(labels, {}, classes).to(torch::kDouble);
  const auto weight = counts.clamp_min(1).pow(-balance).index_select(0, labels);
  return weight / weight.sum().clamp_min(1e-300);
}

torch::Tensor fit_class_bias(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& weight,
                             double ridge) {
  const auto z = logits.to(torch::kDouble);
  const int64_t classes = z.size(1);
  const auto target = torch::zeros({classes}, torch::kDouble).index_add_(0, labels, weight);
  // A class without images says nothing of its bias: it stays at 0.
  const auto present = (target > 0).to(torch::kDouble);
  const auto loss_at = [&](const torch::Tensor& b) {
    return cross_entropy(z + b, labels, weight) + 0.5 * ridge * b.square().sum().item<double>();
  };
  auto bias = torch::zeros({classes}, torch::kDouble);
  double loss = loss_at(bias);
  for (int step = 0; step < most_steps; ++step) {
    const auto p = (z + bias).softmax(1);
    const auto weighted = p * weight.unsqueeze(1);
    const auto sum = weighted.sum(0);
    const auto gradient = (sum - target + ridge * bias) * present;
    const auto curvature = torch::diag(sum + ridge) - weighted.t().matmul(p);
    const auto hessian = curvature * present.outer(present) + torch::diag(1 - present);
    const auto move = torch::linalg_solve(hessian, gradient);
    double length = 1, next = loss_at(bias - move);
    for (; next > loss && length > 1e-6; next = loss_at(bias - length * move)) length /= 2;
    if (next >= loss) break;
    bias -= length * move;
    const bool converged = loss - next < precision;
    loss = next;
    if (converged) break;
  }
  return bias.to(torch::kFloat);
}

double fit_tau(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& log_prior) {
  const auto z = logits.to(torch::kDouble), prior = log_prior.to(torch::kDouble);
  const auto weight = class_balanced_weights(labels, z.size(1));
  return minimum([&](double tau) { return cross_entropy(z - tau * prior, labels, weight); }, 0, most_tau);
}

double fit_temperature(const torch::Tensor& logits, const torch::Tensor& labels) {
  const auto z = logits.to(torch::kDouble);
  const auto images = static_cast<double>(labels.numel());
  // Without smoothing, the loss of images that are all classified correctly has no minimum: T would go to 0. n images
  // without an error say no more than that the next one is an error with probability of about 1/(n+1).
  const double smoothing = 1 / (images + 1);
  const auto loss_at = [&](double temperature) {
    const auto log_p = (z / temperature).log_softmax(1);
    const auto own = log_p.gather(1, labels.unsqueeze(1)).squeeze(1);
    return -((1 - smoothing) * own + smoothing * log_p.mean(1)).sum().item<double>() / images;
  };
  // By its logarithm: a factor of 20 either way is more than a usable model needs.
  return std::exp(minimum([&](double logarithm) { return loss_at(std::exp(logarithm)); }, -3, 3));
}

torch::Tensor log_mean_softmax(const torch::Tensor& logits, const torch::Tensor& labels) {
  const auto p = logits.to(torch::kDouble).softmax(1);
  const auto weight = class_balanced_weights(labels, p.size(1));
  return (p * weight.unsqueeze(1)).sum(0).clamp_min(1e-12).log().to(torch::kFloat);
}

}  // namespace fedgrab
