/// BatchNorm over each slot's own batch, with what follows it. A thread owns one 16-byte vector of channels and walks
/// over rows (sample, pixel); sums over rows are first taken per chunk of rows (those of the forward pass by the
/// convolution, while it holds them), then in double over the chunks, always in the same order.
#include "device.cuh"

namespace fedgrab::cuda {
namespace {

constexpr int threads = 256;
constexpr float momentum = 0.1F;
constexpr float epsilon = 1e-5F;

/// Lanes of a block side by side in a row; the other factor of `threads` is rows.
template <class T>
int lanes_of(int channels) {
  int lanes = 1;
  const int vectors = channels / chunk<T>;
  while (lanes < 32 && vectors % (lanes * 2) == 0) lanes *= 2;
  return lanes;
}

struct Geometry {
  NormShape shape;
  int lanes;
  int rows_per_chunk;

  __device__ int row_threads() const { return threads / lanes; }
  __device__ int channel(int vector) const {
    return (static_cast<int>(blockIdx.y) * lanes + static_cast<int>(threadIdx.x) % lanes) * vector;
  }
  __device__ int first_row() const {
    return static_cast<int>(blockIdx.x) * rows_per_chunk + static_cast<int>(threadIdx.x) / lanes;
  }
  __device__ int last_row(int rows) const { return min(rows, (static_cast<int>(blockIdx.x) + 1) * rows_per_chunk); }
};

template <class T>
Geometry geometry_for(const NormShape& shape, int chunks_at_most, int passes) {
  const int lanes = lanes_of<T>(shape.channels);
  const int per_pass = threads / lanes;
  const int rows = shape.batch * shape.pixels;
  const int needed = chunks_at_most > 0 ? ceil_div(rows, chunks_at_most) : 0;
  const int per_chunk = max(per_pass * passes, ceil_div(needed, per_pass) * per_pass);
  return {shape, lanes, per_chunk};
}

template <class T>
dim3 grid_for(const Geometry& g) {
  return dim3(ceil_div(g.shape.batch * g.shape.pixels, g.rows_per_chunk), g.shape.channels / (chunk<T> * g.lanes),
              g.shape.slots);
}

/// Sums two numbers per channel over the block's rows and writes them as this chunk's.
template <int V>
__device__ void write_partial(const Geometry& g, float (&first)[V], float (&second)[V], float2* scratch) {
  __shared__ float2 partial[threads / 32][32 * V];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < V; ++i)
    for (int offset = 16; offset >= g.lanes; offset /= 2) {
      first[i] += __shfl_xor_sync(0xFFFFFFFFU, first[i], offset);
      second[i] += __shfl_xor_sync(0xFFFFFFFFU, second[i], offset);
    }
  if (lane < g.lanes)
    for (int i = 0; i < V; ++i) partial[warp][lane * V + i] = make_float2(first[i], second[i]);
  __syncthreads();
  const int width = g.lanes * V;
  for (int c = threadIdx.x; c < width; c += threads) {
    float2 total = partial[0][c];
    for (int w = 1; w < threads / 32; ++w) {
      total.x += partial[w][c].x;
      total.y += partial[w][c].y;
    }
    const int channel = static_cast<int>(blockIdx.y) * width + c;
    scratch[(int64_t{blockIdx.z} * g.shape.channels + channel) * norm_chunks + blockIdx.x] = total;
  }
}

/// Over the chunks of one channel, by one warp, in double. Valid in every lane.
__device__ double2 sum_chunks(const float2* sums, int chunks) {
  double2 total{0, 0};
  for (int i = static_cast<int>(threadIdx.x) % 32; i < chunks; i += 32) {
    total.x += sums[i].x;
    total.y += sums[i].y;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    total.x += __shfl_xor_sync(0xFFFFFFFFU, total.x, offset);
    total.y += __shfl_xor_sync(0xFFFFFFFFU, total.y, offset);
  }
  return total;
}

__global__ void finish_statistics(NormShape shape, const int32_t* counts, const float2* all_sums, int stride,
                                  NormTensors t, float2* statistics) {
  const int at = (static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x)) / 32;
  if (at >= shape.slots * shape.channels) return;
  const int slot = at / shape.channels, channel = at % shape.channels;
  const int rows = counts[slot] * shape.pixels;
  if (rows == 0) return;
  const double2 sums = sum_chunks(all_sums + int64_t{at} * stride, (rows + rows_per_sum - 1) / rows_per_sum);
  if (threadIdx.x % 32 != 0) return;
  float& running_mean = t.running_mean[slot * t.stride + channel];
  float& running_var = t.running_var[slot * t.stride + channel];
  if (rows == 1) {  // one value has no variance: the running statistics serve, and stay
    statistics[at] = make_float2(running_mean, rsqrtf(running_var + epsilon));
    return;
  }
  const double mean = sums.x / rows;
  const double variance = max(sums.y / rows - mean * mean, 0.0);
  running_mean = (1 - momentum) * running_mean + momentum * static_cast<float>(mean);
  running_var = (1 - momentum) * running_var + momentum * static_cast<float>(variance * rows / (rows - 1));
  statistics[at] = make_float2(static_cast<float>(mean), static_cast<float>(1 / sqrt(variance + epsilon)));
}

__global__ void running_statistics(NormShape shape, NormTensors t, float2* statistics) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= shape.slots * shape.channels) return;
  const int64_t place = at / shape.channels * t.stride + at % shape.channels;
  statistics[at] = make_float2(t.running_mean[place],
                               static_cast<float>(1 / sqrt(static_cast<double>(t.running_var[place]) + epsilon)));
}

template <class T>
__global__ void __launch_bounds__(threads)
    apply(Geometry g, const int32_t* counts, const T* input, const float2* statistics, NormTensors t, const T* residual,
          bool relu, T* output) {
  constexpr int V = chunk<T>;
  const int slot = blockIdx.z, rows = counts[slot] * g.shape.pixels;
  if (static_cast<int>(blockIdx.x) * g.rows_per_chunk >= rows) return;
  const int channel = g.channel(V);
  const int64_t base = int64_t{slot} * g.shape.batch * g.shape.pixels * g.shape.channels + channel;
  float scale[V], shift[V];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const float2 s = statistics[int64_t{slot} * g.shape.channels + channel + i];
    scale[i] = t.weight[slot * t.stride + channel + i] * s.y;
    shift[i] = t.bias[slot * t.stride + channel + i] - s.x * scale[i];
  }
  for (int row = g.first_row(), last = g.last_row(rows); row < last; row += g.row_threads()) {
    const int64_t at = base + int64_t{row} * g.shape.channels;
    const auto x = *reinterpret_cast<const Vector<T>*>(input + at);
    Vector<T> y, r;
    if (residual != nullptr) r = *reinterpret_cast<const Vector<T>*>(residual + at);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      float value = to_float(x.values[i]) * scale[i] + shift[i];
      if (residual != nullptr) value += to_float(r.values[i]);
      y.values[i] = from_float<T>(relu && value <= 0 ? 0 : value);  // NaN passes, and is noticed
    }
    *reinterpret_cast<Vector<T>*>(output + at) = y;
  }
}

/// Σ g and Σ g x̂, where g is the gradient behind the ReLU.
template <class T>
__global__ void __launch_bounds__(threads)
    sum_backward(Geometry g, const int32_t* counts, const T* input, const float2* statistics, const T* output,
                 const T* gradient, float2* scratch) {
  constexpr int V = chunk<T>;
  const int slot = blockIdx.z, rows = counts[slot] * g.shape.pixels;
  if (static_cast<int>(blockIdx.x) * g.rows_per_chunk >= rows) return;
  const int channel = g.channel(V);
  const int64_t base = int64_t{slot} * g.shape.batch * g.shape.pixels * g.shape.channels + channel;
  float2 s[V];
  float sum[V] = {}, product[V] = {};
#pragma unroll
  for (int i = 0; i < V; ++i) s[i] = statistics[int64_t{slot} * g.shape.channels + channel + i];
  for (int row = g.first_row(), last = g.last_row(rows); row < last; row += g.row_threads()) {
    const int64_t at = base + int64_t{row} * g.shape.channels;
    const auto x = *reinterpret_cast<const Vector<T>*>(input + at);
    const auto d = *reinterpret_cast<const Vector<T>*>(gradient + at);
    Vector<T> y;
    if (output != nullptr) y = *reinterpret_cast<const Vector<T>*>(output + at);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const bool passes = output == nullptr || to_float(y.values[i]) > 0;
      const float value = passes ? to_float(d.values[i]) : 0;
      sum[i] += value;
      product[i] += value * (to_float(x.values[i]) - s[i].x) * s[i].y;
    }
  }
  write_partial<V>(g, sum, product, scratch);
}

__global__ void finish_sums(Geometry g, const int32_t* counts, const float2* scratch, float2* sums, float* weight,
                            float* bias, int64_t stride) {
  const int at = (static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x)) / 32;
  if (at >= g.shape.slots * g.shape.channels) return;
  const int slot = at / g.shape.channels, channel = at % g.shape.channels;
  const int rows = counts[slot] * g.shape.pixels;
  if (rows == 0) return;
  const double2 total =
      sum_chunks(scratch + int64_t{at} * norm_chunks, (rows + g.rows_per_chunk - 1) / g.rows_per_chunk);
  if (threadIdx.x % 32 != 0) return;
  bias[slot * stride + channel] = static_cast<float>(total.x);
  weight[slot * stride + channel] = static_cast<float>(total.y);
  // Under the running statistics nothing flows through mean and variance.
  sums[at] = rows == 1 ? make_float2(0, 0)
                       : make_float2(static_cast<float>(total.x / rows), static_cast<float>(total.y / rows));
}

template <class T>
__global__ void __launch_bounds__(threads)
    apply_backward(Geometry g, const int32_t* counts, const T* input, const float2* statistics, NormTensors t,
                   const T* output, T* gradient, const float2* sums, T* input_gradient) {
  constexpr int V = chunk<T>;
  const int slot = blockIdx.z, rows = counts[slot] * g.shape.pixels;
  if (static_cast<int>(blockIdx.x) * g.rows_per_chunk >= rows) return;
  const int channel = g.channel(V);
  const int64_t base = int64_t{slot} * g.shape.batch * g.shape.pixels * g.shape.channels + channel;
  float2 s[V], mean[V];
  float scale[V];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const int64_t c = int64_t{slot} * g.shape.channels + channel + i;
    s[i] = statistics[c];
    mean[i] = sums[c];
    scale[i] = t.weight[slot * t.stride + channel + i] * s[i].y;
  }
  for (int row = g.first_row(), last = g.last_row(rows); row < last; row += g.row_threads()) {
    const int64_t at = base + int64_t{row} * g.shape.channels;
    const auto x = *reinterpret_cast<const Vector<T>*>(input + at);
    auto d = *reinterpret_cast<const Vector<T>*>(gradient + at);
    Vector<T> y, result;
    if (output != nullptr) y = *reinterpret_cast<const Vector<T>*>(output + at);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (output != nullptr && !(to_float(y.values[i]) > 0)) d.values[i] = from_float<T>(0);
      const float hat = (to_float(x.values[i]) - s[i].x) * s[i].y;
      result.values[i] = from_float<T>(scale[i] * (to_float(d.values[i]) - mean[i].x - hat * mean[i].y));
    }
    *reinterpret_cast<Vector<T>*>(input_gradient + at) = result;
    if (output != nullptr) *reinterpret_cast<Vector<T>*>(gradient + at) = d;
  }
}

constexpr int reduction_passes = 8, elementwise_passes = 4;

}  // namespace

void norm_statistics(const NormShape& shape, const int32_t* counts, const float2* sums, const NormTensors& tensors,
                     float2* statistics, cudaStream_t stream) {
  finish_statistics<<<ceil_div(int64_t{shape.slots} * shape.channels * 32, threads), threads, 0, stream>>>(
      shape, counts, sums, sums_per_channel(shape.batch, shape.pixels), tensors, statistics);
  check_launch("finish_statistics");
}

void norm_running_statistics(const NormShape& shape, const NormTensors& tensors, float2* statistics,
                             cudaStream_t stream) {
  running_statistics<<<ceil_div(int64_t{shape.slots} * shape.channels, 128), 128, 0, stream>>>(shape, tensors,
                                                                                               statistics);
  check_launch("running_statistics");
}

void norm_apply(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                const float2* statistics, const NormTensors& tensors, const void* residual, bool relu, void* output,
                cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const auto g = geometry_for<T>(shape, 0, elementwise_passes);
    apply<T><<<grid_for<T>(g), threads, 0, stream>>>(g, counts, static_cast<const T*>(input), statistics, tensors,
                                                     static_cast<const T*>(residual), relu, static_cast<T*>(output));
    check_launch("apply");
  });
}

void norm_backward(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                   const float2* statistics, const NormTensors& tensors, bool relu, const void* output,
                   void* output_gradient, float2* scratch, float2* sums, float* gradient_weight, float* gradient_bias,
                   int64_t gradient_stride, void* input_gradient, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const auto* const masked_by = relu ? static_cast<const T*>(output) : nullptr;
    auto g = geometry_for<T>(shape, norm_chunks, reduction_passes);
    sum_backward<T><<<grid_for<T>(g), threads, 0, stream>>>(g, counts, static_cast<const T*>(input), statistics,
                                                            masked_by, static_cast<const T*>(output_gradient), scratch);
    check_launch("sum_backward");
    finish_sums<<<ceil_div(int64_t{shape.slots} * shape.channels * 32, threads), threads, 0, stream>>>(
        g, counts, scratch, sums, gradient_weight, gradient_bias, gradient_stride);
    check_launch("finish_sums");
    g = geometry_for<T>(shape, 0, elementwise_passes);
    apply_backward<T><<<grid_for<T>(g), threads, 0, stream>>>(g, counts, static_cast<const T*>(input), statistics,
                                                              tensors, masked_by, static_cast<T*>(output_gradient),
                                                              sums, static_cast<T*>(input_gradient));
    check_launch("apply_backward");
  });
}

}  // namespace fedgrab::cuda
