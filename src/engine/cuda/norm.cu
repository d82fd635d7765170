/// BatchNorm over each slot's own batch, with what follows it. A thread owns one 16-byte vector of channels and walks
/// over rows (sample, pixel). Most sums over rows are taken by convolutions, while they hold what is summed.
#include "device.cuh"
#include "row_sums.cuh"

namespace fedgrab::cuda {
namespace {

constexpr int threads = 256;
constexpr int most_chunks = 32;  // of rows that are summed apart
constexpr int ahead = 4;         // rows that a thread loads before it uses the first

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

/// Sums two numbers per channel over the block's rows, then over all blocks.
template <int V>
__device__ void sum_rows(const Geometry& g, int rows, float (&first)[V], float (&second)[V], const NormBackward& norm) {
  __shared__ float2 partial[threads / 32][32 * V];
  __shared__ double2 scratch[threads];
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
  const int width = g.lanes * V, slot = static_cast<int>(blockIdx.z);
  const BlockOfRows block{slot,
                          g.shape.channels,
                          static_cast<int>(blockIdx.y) * width,
                          width,
                          static_cast<int>(blockIdx.x),
                          (rows + g.rows_per_chunk - 1) / g.rows_per_chunk,
                          static_cast<int>(blockIdx.y)};
  for (int c = threadIdx.x; c < width; c += threads) {
    float2 total = partial[0][c];
    for (int w = 1; w < threads / 32; ++w) {
      total.x += partial[w][c].x;
      total.y += partial[w][c].y;
    }
    partial_at(norm.sums, block, gridDim.x, block.index)[c] = total;
  }
  if (is_last_block(norm.sums, block))
    add_up(norm.sums, block, gridDim.x, scratch,
           [&](int channel, double2 sums) { finish_backward(norm, slot, g.shape.channels, channel, rows, sums); });
}

__global__ void running_statistics(NormShape shape, NormTensors t, float2* statistics) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= shape.slots * shape.channels) return;
  const int64_t place = at / shape.channels * t.stride + at % shape.channels;
  statistics[at] = make_float2(t.running_mean[place],
                               static_cast<float>(1 / sqrt(static_cast<double>(t.running_var[place]) + norm_epsilon)));
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
    shift[i] = t.bias[slot * t.stride + channel + i];
    scale[i] = 1;
    if (t.weight == nullptr) continue;
    const float2 s = statistics[int64_t{slot} * g.shape.channels + channel + i];
    scale[i] = t.weight[slot * t.stride + channel + i] * s.y;
    shift[i] -= s.x * scale[i];
  }
  for (int first = g.first_row(), last = g.last_row(rows); first < last; first += ahead * g.row_threads()) {
    Vector<T> x[ahead], r[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int row = first + k * g.row_threads();
      if (row >= last) continue;
      const int64_t at = base + int64_t{row} * g.shape.channels;
      x[k] = *reinterpret_cast<const Vector<T>*>(input + at);
      if (residual != nullptr) r[k] = *reinterpret_cast<const Vector<T>*>(residual + at);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int row = first + k * g.row_threads();
      if (row >= last) continue;
      Vector<T> y;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        float value = to_float(x[k].values[i]) * scale[i] + shift[i];
        if (residual != nullptr) value += to_float(r[k].values[i]);
        y.values[i] = from_float<T>(relu && value <= 0 ? 0 : value);  // NaN passes, and is noticed
      }
      *reinterpret_cast<Vector<T>*>(output + base + int64_t{row} * g.shape.channels) = y;
    }
  }
}

/// Masks g by the ReLU; Σ g and Σ g x̂.
template <class T>
__global__ void __launch_bounds__(threads)
    sum_backward(Geometry g, const int32_t* counts, T* gradient, const NormBackward norm) {
  constexpr int V = chunk<T>;
  const int slot = blockIdx.z, rows = counts[slot] * g.shape.pixels;
  if (static_cast<int>(blockIdx.x) * g.rows_per_chunk >= rows) return;
  const int channel = g.channel(V);
  const int64_t base = int64_t{slot} * g.shape.batch * g.shape.pixels * g.shape.channels + channel;
  const bool with_norm = norm.input != nullptr;
  float2 s[V];
  float sum[V] = {}, product[V] = {};
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (with_norm) s[i] = norm.statistics[int64_t{slot} * g.shape.channels + channel + i];
  for (int row = g.first_row(), last = g.last_row(rows); row < last; row += g.row_threads()) {
    const int64_t at = base + int64_t{row} * g.shape.channels;
    Vector<T> x;
    if (with_norm) x = *reinterpret_cast<const Vector<T>*>(static_cast<const T*>(norm.input) + at);
    auto d = *reinterpret_cast<const Vector<T>*>(gradient + at);
    Vector<T> y;
    if (norm.output != nullptr) y = *reinterpret_cast<const Vector<T>*>(static_cast<const T*>(norm.output) + at);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (norm.output != nullptr && !(to_float(y.values[i]) > 0)) d.values[i] = from_float<T>(0);
      const float value = to_float(d.values[i]);
      sum[i] += value;
      if (with_norm) product[i] += value * (to_float(x.values[i]) - s[i].x) * s[i].y;
    }
    if (norm.output != nullptr) *reinterpret_cast<Vector<T>*>(gradient + at) = d;
  }
  sum_rows<V>(g, rows, sum, product, norm);
}

template <class T>
__global__ void __launch_bounds__(threads)
    apply_backward(Geometry g, const int32_t* counts, const T* input, const float2* statistics, NormTensors t,
                   const float2* means, const T* gradient, T* input_gradient) {
  constexpr int V = chunk<T>;
  const int slot = blockIdx.z, rows = counts[slot] * g.shape.pixels;
  if (static_cast<int>(blockIdx.x) * g.rows_per_chunk >= rows) return;
  const int channel = g.channel(V);
  const int64_t base = int64_t{slot} * g.shape.batch * g.shape.pixels * g.shape.channels + channel;
  float2 s[V];
  float scale[V], mean[V], slope[V];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const int64_t c = int64_t{slot} * g.shape.channels + channel + i;
    s[i] = statistics[c];
    mean[i] = means[c].x;
    slope[i] = means[c].y * s[i].y;
    scale[i] = t.weight[slot * t.stride + channel + i] * s[i].y;
  }
  for (int first = g.first_row(), last = g.last_row(rows); first < last; first += ahead * g.row_threads()) {
    Vector<T> x[ahead], d[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int row = first + k * g.row_threads();
      if (row >= last) continue;
      const int64_t at = base + int64_t{row} * g.shape.channels;
      x[k] = *reinterpret_cast<const Vector<T>*>(input + at);
      d[k] = *reinterpret_cast<const Vector<T>*>(gradient + at);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int row = first + k * g.row_threads();
      if (row >= last) continue;
      Vector<T> result;
#pragma unroll
      for (int i = 0; i < V; ++i)
        result.values[i] = from_float<T>(
            scale[i] * (to_float(d[k].values[i]) - mean[i] - (to_float(x[k].values[i]) - s[i].x) * slope[i]));
      *reinterpret_cast<Vector<T>*>(input_gradient + base + int64_t{row} * g.shape.channels) = result;
    }
  }
}

template <class T>
__global__ void drop(NormShape s, const int32_t* counts, RoundPlan plan, int layer, float rate, const T* input,
                     T* output) {
  const int slot = blockIdx.y;
  const int64_t item = int64_t{blockIdx.x} * threads + threadIdx.x;  // [sample][pixel][channel]
  const int channel = static_cast<int>(item % s.channels);
  const int64_t row = item / s.channels, sample = row / s.pixels;
  if (sample >= counts[slot]) return;
  const int64_t place = (sample * s.channels + channel) * s.pixels + row % s.pixels;  // [sample][channel][pixel]
  const uint4 words =
      philox({static_cast<uint32_t>(layer) << 24 | static_cast<uint32_t>(place / 4), static_cast<uint32_t>(*plan.step),
              *plan.round, static_cast<uint32_t>(plan.clients[slot])},
             plan.dropout_key);
  const float unit = to_unit(word_of(words, static_cast<int>(place % 4)));
  const int64_t at = int64_t{slot} * s.batch * s.pixels * s.channels + item;
  output[at] = from_float<T>(unit < rate ? 0 : to_float(input[at]) * (1 / (1 - rate)));
}

constexpr int reduction_passes = 8;

/// A thread first reads what belongs to its channels: the more rows it then has, the better, as long as there are
/// blocks for every multiprocessor.
template <class T>
Geometry elementwise_geometry(const NormShape& shape) {
  constexpr int enough = 264;  // blocks
  for (const int passes : {4 * ahead, 2 * ahead}) {
    const auto g = geometry_for<T>(shape, 0, passes);
    const dim3 grid = grid_for<T>(g);
    if (grid.x * grid.y * grid.z >= enough) return g;
  }
  return geometry_for<T>(shape, 0, ahead);
}

}  // namespace

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
    const auto g = elementwise_geometry<T>(shape);
    apply<T><<<grid_for<T>(g), threads, 0, stream>>>(g, counts, static_cast<const T*>(input), statistics, tensors,
                                                     static_cast<const T*>(residual), relu, static_cast<T*>(output));
    check_launch("apply");
  });
}

void dropout(Precision precision, const NormShape& shape, const int32_t* counts, const RoundPlan& plan, int layer,
             float rate, const void* input, void* output, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const int64_t items = int64_t{shape.batch} * shape.pixels * shape.channels;
    drop<T><<<dim3(ceil_div(items, threads), shape.slots), threads, 0, stream>>>(
        shape, counts, plan, layer, rate, static_cast<const T*>(input), static_cast<T*>(output));
    check_launch("drop");
  });
}

void norm_backward_sums(Precision precision, const NormShape& shape, const int32_t* counts, void* output_gradient,
                        const NormBackward& norm, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const auto g = geometry_for<T>(shape, most_chunks, reduction_passes);
    sum_backward<T><<<grid_for<T>(g), threads, 0, stream>>>(g, counts, static_cast<T*>(output_gradient), norm);
    check_launch("sum_backward");
  });
}

void norm_backward(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                   const float2* statistics, const NormTensors& tensors, const float2* means,
                   const void* output_gradient, void* input_gradient, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const auto g = elementwise_geometry<T>(shape);
    apply_backward<T><<<grid_for<T>(g), threads, 0, stream>>>(g, counts, static_cast<const T*>(input), statistics,
                                                              tensors, means, static_cast<const T*>(output_gradient),
                                                              static_cast<T*>(input_gradient));
    check_launch("apply_backward");
  });
}

}  // namespace fedgrab::cuda
