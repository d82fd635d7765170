#include "fedgrab/prior/prior.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fedgrab {
namespace {

std::vector<size_t> smallest(const std::vector<double>& values, size_t k) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return values[a] != values[b] ? values[a] < values[b] : a > b; });
  order.resize(k);
  return order;
}

torch::Tensor rank_profile(const torch::Tensor& values, double span_min) {
  const auto given = values.to(torch::kDouble).cpu().contiguous();
  const auto n = static_cast<size_t>(given.numel());
  const auto* const v = given.data_ptr<double>();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] > v[b]; });
  auto profile = torch::empty_like(given);
  for (size_t first = 0, end = 0; first < n; first = end) {
    while (end < n && v[order[end]] == v[order[first]]) ++end;
    const double rank = static_cast<double>(first + end - 1) / 2 / static_cast<double>(std::max<size_t>(n - 1, 1));
    for (size_t i = first; i < end; ++i) profile.data_ptr<double>()[order[i]] = std::pow(span_min, rank);
  }
  return profile.to(values.options());
}

}  // namespace

torch::Tensor prior_from_weights(const torch::Tensor& weights, PriorScale scale, double span_min) {
  return scale_prior(weights.norm(2, {-1}), scale, span_min);
}

torch::Tensor scale_prior(const torch::Tensor& values, PriorScale scale, double span_min) {
  const double largest = values.max().item<double>();
  const double least = values.min().item<double>();
  if (scale == PriorScale::share) {
    const double sum = values.sum().item<double>();
    return sum > 0 ? values / sum : torch::full_like(values, 1.0 / static_cast<double>(values.numel()));
  }
  // Values equal but for rounding carry no information: every class is treated alike, as the largest.
  if (largest - least <= 1e-6 * largest) return torch::ones_like(values);
  if (scale == PriorScale::rank) return rank_profile(values, span_min);
  return span_min + (1 - span_min) * (values - least) / (largest - least);
}

torch::Tensor stalled_prior(const torch::Tensor& prior) {
  const auto given = prior.to(torch::kDouble).contiguous();
  const auto classes = static_cast<size_t>(given.numel());
  auto chance = torch::zeros_like(given);
  std::vector<double> at(classes + 1);  // chance that the index is i when class j is drawn
  at[0] = 1;
  for (size_t j = 0; j < classes; ++j)
    for (size_t i = j + 1; i-- > 0;) {
      const double exempt = at[i] * given.data_ptr<double>()[i];
      chance.data_ptr<double>()[j] += exempt;
      at[i] -= exempt;
      at[i + 1] += exempt;
    }
  return chance.to(prior.scalar_type());
}

PriorScore score_prior(const torch::Tensor& prior, std::span<const int64_t> true_counts, int64_t k) {
  const auto share = scale_prior(prior.to(torch::kDouble).cpu(), PriorScale::share).contiguous();
  const std::vector<double> p(share.data_ptr<double>(), share.data_ptr<double>() + share.numel());
  const auto total = static_cast<double>(std::accumulate(true_counts.begin(), true_counts.end(), int64_t{0}));
  std::vector<double> truth;
  for (const int64_t n : true_counts) truth.push_back(static_cast<double>(n) / total);
  double squares = 0;
  for (size_t j = 0; j < p.size(); ++j) squares += (p[j] - truth[j]) * (p[j] - truth[j]);
  if (k <= 0) return {std::sqrt(squares), 1.0};

  const auto found = smallest(p, static_cast<size_t>(k));
  const auto rare = smallest(truth, static_cast<size_t>(k));
  const auto hits = std::count_if(rare.begin(), rare.end(),
                                  [&](size_t j) { return std::find(found.begin(), found.end(), j) != found.end(); });
  return {std::sqrt(squares), static_cast<double>(hits) / static_cast<double>(k)};
}

}  // namespace fedgrab
