/// The sparse static simplex of FedLoGe, for its tests.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace fedgrab {

/// Makes the rows of a matrix a sparse simplex (SSE-C): a simplex ETF with a share `sparsity` of its entries at zero
/// and rows of length `length`, then `steps` of Adam on what is left, for rows of that length as far apart as can be.
void make_sparse_etf(const torch::Tensor& weight, double sparsity, double length, int64_t steps, uint64_t seed);

}  // namespace fedgrab
