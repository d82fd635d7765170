/// The sparse simplex of FedLoGe (Xiao et al. 2024).
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace fedgrab {

/// Makes the rows of a matrix a sparse simplex (SSE-C): a simplex ETF with a share `sparsity` of its entries at zero
/// and row norm `length`, then `steps` of Adam on the rest, so that rows of that norm point as far apart as possible.
void make_sparse_etf(const torch::Tensor& weight, double sparsity, double length, int64_t steps, uint64_t seed);

}  // namespace fedgrab
