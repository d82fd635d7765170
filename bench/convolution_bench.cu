/// How fast every tile of every convolution of a ResNet-18 is, 40 clients at once.
///   convolution_bench [BATCH…]      (5 10 32)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "src/engine/cuda/device.cuh"

namespace {

using namespace fedgrab;
using namespace fedgrab::cuda;

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

template <class T>
class Buffer {
 public:
  explicit Buffer(size_t size) : size_(size) {
    check(cudaMalloc(&data_, size * sizeof(T)));
    check(cudaMemset(data_, 0, size * sizeof(T)));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  T* get() const { return data_; }
  size_t size() const { return size_; }
  void set(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyDefault));
  }
  /// `values` again and again, from `begin` on.
  void fill(const std::vector<T>& values, size_t begin) {
    for (size_t at = 0; at < size_; begin = 0) {
      const size_t size = std::min(values.size() - begin, size_ - at);
      check(cudaMemcpy(data_ + at, values.data() + begin, size * sizeof(T), cudaMemcpyDefault));
      at += size;
    }
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

/// Everything that a convolution and the norms around it read and write.
struct World {
  ConvolutionShape shape;
  size_t in, out, weights;
  Buffer<bf16> x, y, w, copy, norm_input, norm_output;
  Buffer<float> values, velocity, affine, gradient_affine, lr;
  Buffer<float2> partial, statistics, means;
  Buffer<int32_t> tickets, counts;
  std::vector<bf16> noise;

  explicit World(const ConvolutionShape& s)
      : shape(s),
        in(size_t(s.slots) * s.batch * s.height * s.width * s.in),
        out(size_t(s.slots) * s.batch * s.out_height * s.out_width * s.out),
        weights(size_t(s.out) * s.kernel * s.kernel * s.in),
        x(in),
        y(out),
        w(s.slots * weights),
        copy(s.slots * weights),
        norm_input(in),
        norm_output(in),
        values(s.slots * weights),
        velocity(s.slots * weights),
        affine(size_t(s.slots) * 4 * std::max(s.in, s.out)),
        gradient_affine(size_t(s.slots) * 2 * std::max(s.in, s.out)),
        lr(1),
        partial(size_t(std::max(row_sums_room(s.slots, s.batch, s.out_height * s.out_width, s.out),
                                row_sums_room(s.slots, s.batch, s.height * s.width, s.in)))),
        statistics(size_t(s.slots) * std::max(s.in, s.out)),
        means(size_t(s.slots) * s.in),
        tickets(size_t(s.slots) * ticket_room),
        counts(size_t(s.slots)),
        noise(1048573) {
    std::mt19937 random(1);
    for (auto& value : noise) value = __float2bfloat16_rn(std::uniform_real_distribution<float>(-1, 1)(random));
    lr.set({0.1F});
  }
  /// Everything as it was.
  void reset(const std::vector<int32_t>& samples) {
    counts.set(samples);
    x.fill(noise, 0);
    y.fill(noise, 1000);
    w.fill(noise, 20000);
    norm_input.fill(noise, 300000);
    norm_output.fill(noise, 400000);
    check(cudaMemset(values.get(), 0, values.size() * 4));
    check(cudaMemset(velocity.get(), 0, velocity.size() * 4));
    check(cudaMemset(copy.get(), 0, copy.size() * 2));
    std::vector<float2> unit(statistics.size(), make_float2(0.1F, 1.5F));
    statistics.set(unit);
  }

  NormForward norm_forward() {
    const int64_t stride = 4 * shape.out;
    float* const a = affine.get();
    return {{partial.get(), tickets.get()},
            {a, a + shape.out, a + 2 * shape.out, a + 3 * shape.out, stride},
            statistics.get()};
  }
  NormBackward norm_backward() {
    return {{partial.get(), tickets.get()},
            norm_input.get(),
            norm_output.get(),
            statistics.get(),
            means.get(),
            gradient_affine.get(),
            gradient_affine.get() + shape.in,
            2 * shape.in};
  }
  SlotTensor tensor() {
    return {values.get(), velocity.get(), copy.get(), nullptr, nullptr, static_cast<int64_t>(weights)};
  }

  void launch(Pass pass, int tile, bool norms) {
    const NormForward forward = norm_forward();
    const NormBackward backward = norm_backward();
    switch (pass) {
      case Pass::forward:
        return convolve(Precision::bf16, shape, counts.get(), x.get(), w.get(), weights, y.get(),
                        norms ? &forward : nullptr, tile, nullptr);
      case Pass::input_gradient:
        return convolve_input_gradient(Precision::bf16, shape, counts.get(), y.get(), w.get(), weights, x.get(), norms,
                                       norms ? &backward : nullptr, tile, nullptr);
      case Pass::weight_gradient:
        return convolve_and_step(Precision::bf16, shape, counts.get(), x.get(), y.get(), tensor(),
                                 {lr.get(), 0.5F, 0.01F, 0}, tile, nullptr);
    }
  }
};

ConvolutionShape shape_of(int slots, int batch, int side, int in, int out, int kernel, int stride) {
  const int after = (side + 2 * (kernel / 2) - kernel) / stride + 1;
  return {slots, batch, side, side, in, after, after, out, kernel, stride, kernel / 2};
}

struct Layer {
  int side, in, out, kernel, stride, times;  // times: of a ResNet-18 for images of 32 x 32
};
const std::vector<Layer> layers{{32, 8, 64, 3, 1, 1},    {32, 64, 64, 3, 1, 4},   {32, 64, 128, 3, 2, 1},
                                {16, 128, 128, 3, 1, 3}, {32, 64, 128, 1, 2, 1},  {16, 128, 256, 3, 2, 1},
                                {8, 256, 256, 3, 1, 3},  {16, 128, 256, 1, 2, 1}, {8, 256, 512, 3, 2, 1},
                                {4, 512, 512, 3, 1, 3},  {8, 256, 512, 1, 2, 1}};
const char* const pass_names[] = {"forward", "input gradient", "weight gradient"};

}  // namespace

int main(int count, char** values) {
  std::vector<int> batches;
  for (int i = 1; i < count; ++i) batches.push_back(std::atoi(values[i]));
  if (batches.empty()) batches = {5, 10, 32};
  constexpr int slots = 40;
  for (const int batch : batches) {
    double all[2] = {};
    for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient})
      for (const auto& l : layers) {
        World world(shape_of(slots, batch, l.side, l.in, l.out, l.kernel, l.stride));
        world.reset(std::vector<int32_t>(slots, batch));
        std::printf("batch %2d %-15s %2dx%-2d %3d->%3d k%d s%d:", batch, pass_names[static_cast<int>(pass)], l.side,
                    l.side, l.in, l.out, l.kernel, l.stride);
        const double flop = 2.0 * slots * batch * world.shape.out_height * world.shape.out_width * world.weights;
        float best[2] = {std::numeric_limits<float>::max(), std::numeric_limits<float>::max()};
        for (int tile = 0; tile < tiles_of(Precision::bf16); ++tile) {
          if (!tile_fits(Precision::bf16, pass, world.shape, tile)) continue;
          float least = std::numeric_limits<float>::max();
          cudaEvent_t begin, end;
          check(cudaEventCreate(&begin));
          check(cudaEventCreate(&end));
          for (int turn = 0; turn < 4; ++turn) {
            check(cudaEventRecord(begin));
            for (int i = 0; i < 3; ++i) world.launch(pass, tile, pass != Pass::weight_gradient);
            check(cudaEventRecord(end));
            check(cudaEventSynchronize(end));
            float ms = 0;
            check(cudaEventElapsedTime(&ms, begin, end));
            if (turn > 0) least = std::min(least, ms / 3);
          }
          if (tile < 7) best[0] = std::min(best[0], least);
          best[1] = std::min(best[1], least);
          std::printf(" %d:%.0f", tile, least * 1e3F);
        }
        std::printf("  best %.0f -> %.0f us, %.0f TFLOP/s\n", best[0] * 1e3F, best[1] * 1e3F, flop / best[1] * 1e-9);
        std::fflush(stdout);
        for (int i = 0; i < 2; ++i) all[i] += l.times * best[i];
      }
    std::printf("batch %d, sum over a ResNet-18: %.3f -> %.3f ms per client-step\n", batch, all[0] / slots,
                all[1] / slots);
  }
}
