/// Random tensors, and comparisons of tensors that say what they found.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fedgrab/core/random.h"

namespace fedgrab {

inline torch::Tensor normal_numbers(at::IntArrayRef shape, uint32_t stream, torch::Dtype type = torch::kFloat) {
  auto values = torch::empty(shape, torch::kDouble);
  Random random(5, Purpose::synthetic, stream);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = random.normal();
  return values.to(type);
}

inline torch::Tensor norms(const torch::Tensor& rows) { return rows.norm(2, {1}); }

inline void expect_near(const torch::Tensor& got, const torch::Tensor& expected, double tolerance = 1e-5) {
  ASSERT_TRUE(got.defined());
  EXPECT_LT((got.to(torch::kDouble) - expected.to(torch::kDouble)).abs().max().item<double>(), tolerance)
      << got << "\ninstead of\n"
      << expected;
}

}  // namespace fedgrab
