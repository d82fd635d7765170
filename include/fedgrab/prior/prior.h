/// DPA, the direct prior analyzer: estimates the global class prior from the weight norms of a classifier, without
/// class counts (paper, Sec. 3.2).
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <vector>

#include "fedgrab/prior/prior_params.h"

namespace fedgrab {

/// P_j = h(‖w_j‖₂).
torch::Tensor prior_from_weights(const torch::Tensor& weights, PriorScale scale, double span_min = 0.1);
/// The same scales for any non-negative vector (class counts, a hand-set profile).
torch::Tensor scale_prior(const torch::Tensor& values, PriorScale scale, double span_min = 0.1);

/// The probability of each class to be exempt where the index into `prior` advances only after an exemption, as it does
/// in the published code: class j is compared with prior[i] when i of the classes before it were exempt.
torch::Tensor stalled_prior(const torch::Tensor& prior);

struct PriorScore {
  double l2 = 0;        // distance between the prior as a share and the true class shares
  double tail_hit = 0;  // share of the true k rarest classes that are among the k smallest of the prior
};

/// Ties go to the later class on both sides, so that equal values score the classes at the end.
PriorScore score_prior(const torch::Tensor& prior, std::span<const int64_t> true_counts, int64_t k);

}  // namespace fedgrab
