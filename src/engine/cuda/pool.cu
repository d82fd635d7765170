/// Pooling. Gradients are gathered by the input pixel, never scattered, so that no addition depends on chance.
#include "device.cuh"

namespace fedgrab::cuda {
namespace {

constexpr int threads = 256;

template <class T>
__global__ void pool(ConvolutionShape s, const int32_t* counts, const T* input, T* output, uint8_t* which) {
  const int slot = blockIdx.y;
  const int64_t item = int64_t{blockIdx.x} * threads + threadIdx.x;
  const int c = static_cast<int>(item % s.in);
  const int64_t pixel = item / s.in;
  const int x = static_cast<int>(pixel % s.out_width), y = static_cast<int>(pixel / s.out_width % s.out_height);
  const int64_t image = pixel / s.out_width / s.out_height;
  if (image >= counts[slot]) return;
  const T* const from = input + (int64_t{slot} * s.batch + image) * s.height * s.width * s.in + c;
  float best = 0;
  int winner = -1;
  for (int r = 0; r < s.kernel; ++r)
    for (int q = 0; q < s.kernel; ++q) {
      const int iy = y * s.stride - s.padding + r, ix = x * s.stride - s.padding + q;
      if (iy < 0 || ix < 0 || iy >= s.height || ix >= s.width) continue;
      const float value = to_float(from[(int64_t{iy} * s.width + ix) * s.in]);
      if (winner >= 0 && !(value > best)) continue;
      best = value;
      winner = r * s.kernel + q;
    }
  const int64_t at = int64_t{slot} * s.batch * s.out_height * s.out_width * s.in + item;
  output[at] = from_float<T>(best);
  which[at] = static_cast<uint8_t>(winner);
}

template <class T>
__global__ void unpool(ConvolutionShape s, const int32_t* counts, const T* gradient, const uint8_t* which, T* result) {
  const int slot = blockIdx.y;
  const int64_t item = int64_t{blockIdx.x} * threads + threadIdx.x;
  const int c = static_cast<int>(item % s.in);
  const int64_t pixel = item / s.in;
  const int x = static_cast<int>(pixel % s.width), y = static_cast<int>(pixel / s.width % s.height);
  const int64_t image = pixel / s.width / s.height;
  if (image >= counts[slot]) return;
  const int64_t base = (int64_t{slot} * s.batch + image) * s.out_height * s.out_width * s.in + c;
  float sum = 0;
  for (int r = 0; r < s.kernel; ++r)
    for (int q = 0; q < s.kernel; ++q) {
      const int oy = y + s.padding - r, ox = x + s.padding - q;
      if (oy < 0 || ox < 0 || oy % s.stride != 0 || ox % s.stride != 0) continue;
      if (oy / s.stride >= s.out_height || ox / s.stride >= s.out_width) continue;
      const int64_t at = base + (int64_t{oy / s.stride} * s.out_width + ox / s.stride) * s.in;
      if (which[at] == r * s.kernel + q) sum += to_float(gradient[at]);
    }
  result[int64_t{slot} * s.batch * s.height * s.width * s.in + item] = from_float<T>(sum);
}

template <class T>
__global__ void average(NormShape s, const int32_t* counts, const T* input, float* features) {
  const int slot = blockIdx.z, image = blockIdx.y;
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= s.channels) return;
  float sum = 0;
  const int64_t sample = int64_t{slot} * s.batch + image;
  if (image < counts[slot])
    for (int p = 0; p < s.pixels; ++p) sum += to_float(input[(sample * s.pixels + p) * s.channels + c]);
  features[sample * s.channels + c] = sum / static_cast<float>(s.pixels);
}

template <class T>
__global__ void spread(NormShape s, const int32_t* counts, const float* gradient, T* result) {
  const int slot = blockIdx.z, image = blockIdx.y;
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= s.channels || image >= counts[slot]) return;
  const int64_t sample = int64_t{slot} * s.batch + image;
  const T value = from_float<T>(gradient[sample * s.channels + c] / static_cast<float>(s.pixels));
  for (int p = 0; p < s.pixels; ++p) result[(sample * s.pixels + p) * s.channels + c] = value;
}

}  // namespace

void max_pool(Precision precision, const ConvolutionShape& shape, const int32_t* counts, const void* input,
              void* output, uint8_t* which, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const int64_t items = int64_t{shape.batch} * shape.out_height * shape.out_width * shape.in;
    pool<T><<<dim3(ceil_div(items, threads), shape.slots), threads, 0, stream>>>(
        shape, counts, static_cast<const T*>(input), static_cast<T*>(output), which);
    check_launch("pool");
  });
}

void max_pool_backward(Precision precision, const ConvolutionShape& shape, const int32_t* counts,
                       const void* output_gradient, const uint8_t* which, void* input_gradient, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const int64_t items = int64_t{shape.batch} * shape.height * shape.width * shape.in;
    unpool<T><<<dim3(ceil_div(items, threads), shape.slots), threads, 0, stream>>>(
        shape, counts, static_cast<const T*>(output_gradient), which, static_cast<T*>(input_gradient));
    check_launch("unpool");
  });
}

void global_average(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                    float* features, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    average<T><<<dim3(ceil_div(shape.channels, 128), shape.batch, shape.slots), 128, 0, stream>>>(
        shape, counts, static_cast<const T*>(input), features);
    check_launch("average");
  });
}

void global_average_backward(Precision precision, const NormShape& shape, const int32_t* counts,
                             const float* feature_gradient, void* input_gradient, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    spread<T><<<dim3(ceil_div(shape.channels, 128), shape.batch, shape.slots), 128, 0, stream>>>(
        shape, counts, feature_gradient, static_cast<T*>(input_gradient));
    check_launch("spread");
  });
}

}  // namespace fedgrab::cuda
