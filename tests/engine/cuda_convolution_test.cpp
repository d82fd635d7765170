/// Every tile of every convolution against LibTorch in float: bf16 operands, so that one product is wrong by 2⁻⁸ at
/// most and a missing tap by a third. Without a CUDA device these tests skip and say so.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "engine/cuda/kernels.h"

namespace fedgrab::cuda {

struct Layer {
  int side, in, out, kernel, stride;
};
void PrintTo(const Layer& l, std::ostream* out) {
  *out << l.side << "x" << l.side << "_" << l.in << "_" << l.out << "_k" << l.kernel << "_s" << l.stride;
}

constexpr int slots = 3, batch = 11;
constexpr double rounding = 6e-3;  // relative, of a sum of products of bf16 numbers, rounded to bf16

ConvolutionShape shape_of(const Layer& l) {
  const int padding = l.kernel / 2, after = (l.side + 2 * padding - l.kernel) / l.stride + 1;
  return {slots, batch, l.side, l.side, l.in, after, after, l.out, l.kernel, l.stride, padding};
}

torch::TensorOptions bf16_options() { return torch::dtype(torch::kBFloat16).device(torch::kCUDA); }

double error(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a.to(torch::kDouble) - b.to(torch::kDouble)).norm() / b.to(torch::kDouble).norm()).item<double>();
}

class CudaConvolution : public testing::TestWithParam<Layer> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(1);
    shape = shape_of(GetParam());
    input = torch::randn({slots, batch, shape.height, shape.width, shape.in}, bf16_options());
    gradient = torch::randn({slots, batch, shape.out_height, shape.out_width, shape.out}, bf16_options());
    weight = torch::randn({slots, shape.out, shape.kernel, shape.kernel, shape.in}, bf16_options()) * 0.1;
    samples = torch::tensor({11, 6, 1}, torch::dtype(torch::kInt).device(torch::kCUDA));
  }

  /// The samples that a slot has, as LibTorch wants them: channels before pixels, float.
  torch::Tensor images(const torch::Tensor& t, int slot) const {
    return t[slot].narrow(0, 0, samples[slot].item<int>()).permute({0, 3, 1, 2}).to(torch::kFloat).contiguous();
  }
  torch::Tensor weights(int slot) const { return weight[slot].permute({0, 3, 1, 2}).to(torch::kFloat).contiguous(); }
  int64_t stride() const { return weight.stride(0); }
  const int32_t* counts() const { return samples.data_ptr<int32_t>(); }

  template <class Run>
  void each_tile(Pass pass, Run run) {
    for (int tile = 0; tile < tiles_of(Precision::bf16); ++tile) {
      if (!tile_fits(Precision::bf16, pass, shape, tile)) continue;
      SCOPED_TRACE("tile " + std::to_string(tile));
      run(tile);
    }
  }

  ConvolutionShape shape{};
  torch::Tensor input, gradient, weight, samples;
};

TEST_P(CudaConvolution, ForwardIsLibTorchs) {
  each_tile(Pass::forward, [&](int tile) {
    const auto output = torch::full_like(gradient, NAN);
    convolve(Precision::bf16, shape, counts(), input.data_ptr(), weight.data_ptr(), stride(), output.data_ptr(),
             nullptr, tile, nullptr);
    for (int slot = 0; slot < slots; ++slot) {
      const auto expected = torch::conv2d(images(input, slot), weights(slot), {}, shape.stride, shape.padding);
      EXPECT_LT(error(images(output, slot), expected), rounding) << "slot " << slot;
      const int64_t rest = batch - samples[slot].item<int>();
      EXPECT_TRUE(output[slot].narrow(0, batch - rest, rest).isnan().all().item<bool>()) << "wrote beyond its samples";
    }
  });
}

/// The statistics of the norm behind a convolution, taken from its result.
TEST_P(CudaConvolution, LeavesTheStatisticsOfItsResult) {
  each_tile(Pass::forward, [&](int tile) {
    const auto output = torch::zeros_like(gradient);
    const auto partial = torch::empty({row_sums_room(slots, batch, shape.out_height * shape.out_width, shape.out), 2},
                                      torch::device(torch::kCUDA));
    const auto tickets = torch::zeros({slots, ticket_room}, samples.options());
    const auto running = torch::zeros({slots, 4, shape.out}, torch::device(torch::kCUDA));
    const auto statistics = torch::zeros({slots, shape.out, 2}, torch::device(torch::kCUDA));
    float* const r = running.data_ptr<float>();
    const NormForward norm{{reinterpret_cast<float2*>(partial.data_ptr<float>()), tickets.data_ptr<int32_t>()},
                           {r, r + shape.out, r + 2 * shape.out, r + 3 * shape.out, 4 * shape.out},
                           reinterpret_cast<float2*>(statistics.data_ptr<float>())};
    convolve(Precision::bf16, shape, counts(), input.data_ptr(), weight.data_ptr(), stride(), output.data_ptr(), &norm,
             tile, nullptr);
    for (int slot = 0; slot < slots; ++slot) {
      const auto values = images(output, slot).permute({1, 0, 2, 3}).flatten(1).to(torch::kDouble);
      EXPECT_LT((statistics[slot].select(1, 0) - values.mean(1)).abs().max().item<double>(), 1e-4);
      const auto inverse = (values.var(1, false) + 1e-5).rsqrt();
      EXPECT_LT(error(statistics[slot].select(1, 1), inverse), 1e-3);
    }
    EXPECT_EQ(tickets.sum().item<int64_t>(), 0);
  });
}

TEST_P(CudaConvolution, InputGradientIsLibTorchs) {
  each_tile(Pass::input_gradient, [&](int tile) {
    const auto output = torch::full_like(input, NAN);
    convolve_input_gradient(Precision::bf16, shape, counts(), gradient.data_ptr(), weight.data_ptr(), stride(),
                            output.data_ptr(), false, nullptr, tile, nullptr);
    for (int slot = 0; slot < slots; ++slot) {
      auto x = images(input, slot).set_requires_grad(true);
      torch::conv2d(x, weights(slot), {}, shape.stride, shape.padding).backward(images(gradient, slot));
      EXPECT_LT(error(images(output, slot), x.grad()), rounding) << "slot " << slot;
    }
  });
}

/// Added to what is there, masked by the ReLU below, with both sums of the norm's backward pass.
TEST_P(CudaConvolution, InputGradientCompletesTheNormBelow) {
  const auto behind = torch::randn_like(input), before = torch::randn_like(input), there = torch::randn_like(input);
  each_tile(Pass::input_gradient, [&](int tile) {
    const auto output = there.clone();
    const auto partial = torch::empty({row_sums_room(slots, batch, shape.height * shape.width, shape.in), 2},
                                      torch::device(torch::kCUDA));
    const auto tickets = torch::zeros({slots, ticket_room}, samples.options());
    const auto statistics = torch::rand({slots, shape.in, 2}, torch::device(torch::kCUDA)) + 0.5;
    const auto means = torch::zeros({slots, shape.in, 2}, torch::device(torch::kCUDA));
    const auto affine = torch::zeros({slots, 2, shape.in}, torch::device(torch::kCUDA));
    const NormBackward norm{{reinterpret_cast<float2*>(partial.data_ptr<float>()), tickets.data_ptr<int32_t>()},
                            before.data_ptr(),
                            behind.data_ptr(),
                            reinterpret_cast<const float2*>(statistics.data_ptr<float>()),
                            reinterpret_cast<float2*>(means.data_ptr<float>()),
                            affine.data_ptr<float>(),
                            affine.data_ptr<float>() + shape.in,
                            2 * shape.in};
    convolve_input_gradient(Precision::bf16, shape, counts(), gradient.data_ptr(), weight.data_ptr(), stride(),
                            output.data_ptr(), true, &norm, tile, nullptr);
    for (int slot = 0; slot < slots; ++slot) {
      auto x = images(input, slot).set_requires_grad(true);
      torch::conv2d(x, weights(slot), {}, shape.stride, shape.padding).backward(images(gradient, slot));
      const auto expected = (x.grad() + images(there, slot)) * (images(behind, slot) > 0);
      EXPECT_LT(error(images(output, slot), expected), rounding) << "slot " << slot;
      const auto rows = [](const torch::Tensor& t) { return t.permute({1, 0, 2, 3}).flatten(1).to(torch::kDouble); };
      const auto g = rows(images(output, slot));
      const auto mean = statistics[slot].select(1, 0).unsqueeze(1),
                 inverse = statistics[slot].select(1, 1).unsqueeze(1);
      const auto standardised = (rows(images(before, slot)) - mean) * inverse;
      EXPECT_LT(error(affine[slot][1], g.sum(1)), 1e-3);
      EXPECT_LT(error(affine[slot][0], (g * standardised).sum(1)), 1e-3);
    }
  });
}

TEST_P(CudaConvolution, WeightGradientIsLibTorchs) {
  each_tile(Pass::weight_gradient, [&](int tile) {
    const auto output = torch::full(weight.sizes(), NAN, torch::device(torch::kCUDA));
    convolve_weight_gradient(Precision::bf16, shape, counts(), input.data_ptr(), gradient.data_ptr(),
                             output.data_ptr<float>(), stride(), tile, nullptr);
    for (int slot = 0; slot < slots; ++slot) {
      auto w = weights(slot).set_requires_grad(true);
      torch::conv2d(images(input, slot), w, {}, shape.stride, shape.padding).backward(images(gradient, slot));
      EXPECT_LT(error(output[slot].permute({0, 3, 1, 2}), w.grad()), 5e-4) << "slot " << slot;
    }
  });
}

/// With momentum and weight decay, into the weights and their bf16 copy.
TEST_P(CudaConvolution, StepsWithTheGradient) {
  each_tile(Pass::weight_gradient, [&](int tile) {
    const auto values = weight.to(torch::kFloat).contiguous(), velocity = torch::rand_like(values);
    const auto start = values.clone(), old_velocity = velocity.clone();
    const auto copy = torch::zeros_like(weight), lr = torch::full({1}, 0.1F, torch::device(torch::kCUDA));
    convolve_and_step(
        Precision::bf16, shape, counts(), input.data_ptr(), gradient.data_ptr(),
        {values.data_ptr<float>(), velocity.data_ptr<float>(), copy.data_ptr(), nullptr, nullptr, stride()},
        {lr.data_ptr<float>(), 0.5F, 0.01F, 0}, tile, nullptr);
    for (int slot = 0; slot < slots; ++slot) {
      auto w = weights(slot).set_requires_grad(true);
      torch::conv2d(images(input, slot), w, {}, shape.stride, shape.padding).backward(images(gradient, slot));
      const auto moved = 0.5 * old_velocity[slot] + w.grad().permute({0, 2, 3, 1}) + 0.01 * start[slot];
      EXPECT_LT(error(velocity[slot], moved), 5e-4) << "slot " << slot;
      EXPECT_LT(error(values[slot], start[slot] - 0.1 * moved), 5e-4) << "slot " << slot;
      EXPECT_TRUE(torch::equal(copy[slot], values[slot].to(torch::kBFloat16)));
    }
  });
}

/// Those of a ResNet-18 for images of 32 x 32, and others that the tiles for patches have to tell apart.
INSTANTIATE_TEST_SUITE_P(Layers, CudaConvolution,
                         testing::Values(Layer{32, 8, 64, 3, 1}, Layer{32, 64, 64, 3, 1}, Layer{16, 128, 128, 3, 1},
                                         Layer{8, 256, 256, 3, 1}, Layer{4, 512, 512, 3, 1}, Layer{32, 64, 128, 3, 2},
                                         Layer{16, 128, 256, 3, 2}, Layer{8, 256, 512, 3, 2}, Layer{32, 64, 128, 1, 2},
                                         Layer{16, 128, 256, 1, 2}, Layer{8, 256, 512, 1, 2}, Layer{24, 64, 192, 3, 1},
                                         Layer{12, 64, 64, 3, 1}, Layer{4, 64, 128, 3, 1}, Layer{16, 192, 64, 3, 2}),
                         testing::PrintToStringParamName());

}  // namespace fedgrab::cuda
