/// What becomes of a tile of a convolution's result, once it lies in shared memory in rows of K::result_pitch floats:
/// written out, with the sums that norms need taken in passing, or used up by SGD's step. K is the Tile of
/// convolution.cu.
#pragma once

#include "row_sums.cuh"

namespace fedgrab::cuda {

struct Arguments {
  ConvolutionShape shape;
  Divider by_in, by_out, by_kernel, by_pixels, by_width;  // pixels and width: of the tensor whose rows are tiled
  const int32_t* counts;
  const void *a, *b;
  int64_t weight_stride;
  void* result;
  bool accumulate;
  NormForward forward;    // partial null: none
  NormBackward backward;  // likewise
  // weight gradient
  SlotTensor tensor;
  SgdRule rule;
  float* gradient;
  int64_t gradient_stride;
};

/// Where a block's tile of the result lies: columns n0 … of `columns` in one slot.
struct Corner {
  int slot, n0, columns;
};

/// The statistics of the norm behind a convolution, from its result as that will be read.
template <class K>
__device__ void sum_squares(const NormForward& norm, const BlockOfRows& block, const float* result, int rows,
                            int all_rows, double2* scratch) {
  using T = typename K::Element;
  constexpr int BN = K::n, parts = K::threads / BN, part_rows = K::m / parts;
  static_assert(K::m % parts == 0);
  auto* const partial = reinterpret_cast<float2*>(scratch);
  const int column = threadIdx.x % BN, first = threadIdx.x / BN * part_rows;
  float2 total{0, 0};
#pragma unroll 8
  for (int row = first; row < first + part_rows; ++row) {
    const float y = row < rows ? to_float(from_float<T>(result[row * K::result_pitch + column])) : 0;
    total.x += y;
    total.y += y * y;
  }
  partial[threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.x < BN && block.first + column < block.channels) {
    for (int part = 1; part < parts; ++part) {
      total.x += partial[part * BN + column].x;
      total.y += partial[part * BN + column].y;
    }
    partial_at(norm.sums, block, gridDim.x, block.index)[column] = total;
  }
  if (is_last_block(norm.sums, block))
    add_up(norm.sums, block, gridDim.x, scratch, [&](int channel, double2 sums) {
      finish_statistics(norm, block.slot, block.channels, channel, all_rows, sums);
    });
}

/// `place(row, column)`: where four columns of the tile lie in the weights of a slot; −1: outside. `thread`: of
/// K::threads.
template <class K, class Place>
__device__ void write_gradient(const Arguments& args, int slot, int thread, const float* result, Place place) {
  constexpr int quads = K::n / 4;
  for (int item = thread; item < K::m * quads; item += K::threads) {
    const int row = item / quads, column = item % quads * 4;
    if (const int at = place(row, column); at >= 0)
      *reinterpret_cast<float4*>(args.gradient + slot * args.gradient_stride + at) =
          *reinterpret_cast<const float4*>(result + row * K::result_pitch + column);
  }
}

/// Weights and momentum stream through: a few loads are in flight before the first is used. Arguments as above.
template <class K, class Place>
__device__ void take_step(const Arguments& args, int slot, int thread, const float* result, Place place) {
  constexpr int ahead = 4, quads = K::n / 4;
  static_assert(K::m * quads % (K::threads * ahead) == 0);
  const SlotTensor& t = args.tensor;
  const float lr = *args.rule.lr;
  for (int item = thread; item < K::m * quads; item += K::threads * ahead) {
    float4 w[ahead], v[ahead];
    int at[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      at[i] = place((item + i * K::threads) / quads, (item + i * K::threads) % quads * 4);
      if (at[i] < 0) continue;
      w[i] = __ldcs(reinterpret_cast<const float4*>(t.weight + slot * t.stride + at[i]));
      v[i] = __ldcs(reinterpret_cast<const float4*>(t.velocity + slot * t.stride + at[i]));
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      if (at[i] < 0) continue;
      const int64_t where = slot * t.stride + at[i];
      const int here = item + i * K::threads;
      const float4 g = *reinterpret_cast<const float4*>(result + here / quads * K::result_pitch + here % quads * 4);
      const float* const start = t.start == nullptr ? nullptr : t.start + at[i];
      const float* const extra = t.correction == nullptr ? nullptr : t.correction + where;
      const auto next = [](const float* p, int k) { return p == nullptr ? nullptr : p + k; };
      w[i].x = sgd_update(w[i].x, g.x, v[i].x, lr, args.rule, next(start, 0), next(extra, 0));
      w[i].y = sgd_update(w[i].y, g.y, v[i].y, lr, args.rule, next(start, 1), next(extra, 1));
      w[i].z = sgd_update(w[i].z, g.z, v[i].z, lr, args.rule, next(start, 2), next(extra, 2));
      w[i].w = sgd_update(w[i].w, g.w, v[i].w, lr, args.rule, next(start, 3), next(extra, 3));
      __stcs(reinterpret_cast<float4*>(t.weight + where), w[i]);
      __stcs(reinterpret_cast<float4*>(t.velocity + where), v[i]);
      if constexpr (K::E == 8) {
        auto* const copy = reinterpret_cast<__nv_bfloat162*>(static_cast<bf16*>(t.copy) + where);
        copy[0] = __floats2bfloat162_rn(w[i].x, w[i].y);
        copy[1] = __floats2bfloat162_rn(w[i].z, w[i].w);
      }
    }
  }
}

/// Output or input gradient, E channels at a time; of the latter also the first half of the backward pass through the
/// norm below. `pixel_of(row)`: the pixel of a row of the tile, images of the slot one after the other; −1: none.
template <class K, class PixelOf>
__device__ void write_rows(const Arguments& args, const Corner& c, const BlockOfRows& block, float* result,
                           double2* scratch, PixelOf pixel_of) {
  using T = typename K::Element;
  constexpr int E = K::E, ahead = 4;
  constexpr int vectors = K::n / E, rows_at_once = K::threads / vectors;
  const ConvolutionShape& s = args.shape;
  const int column = threadIdx.x % vectors * E, n = c.n0 + column;
  const int64_t size = K::of == Pass::forward ? int64_t{s.batch} * s.out_height * s.out_width * s.out
                                              : int64_t{s.batch} * s.height * s.width * s.in;
  const NormBackward& norm = args.backward;
  const bool with_sums = K::of == Pass::input_gradient && norm.sums.partial != nullptr;
  const bool with_norm = with_sums && norm.input != nullptr, masked = with_sums && norm.output != nullptr;
  float total[E] = {}, product[E] = {};
  float2 statistics[E];
  if (with_norm && n < c.columns)
    for (int i = 0; i < E; ++i) statistics[i] = norm.statistics[int64_t{c.slot} * c.columns + n + i];
  const auto place_of = [&](int row) -> int64_t {  // −1: outside
    if (row >= K::m || n >= c.columns) return -1;
    const int pixel = pixel_of(row);
    return pixel < 0 ? -1 : c.slot * size + int64_t{pixel} * c.columns + n;
  };
  const auto vector_at = [](const void* data, int64_t at) {
    return *reinterpret_cast<const Vector<T>*>(static_cast<const T*>(data) + at);
  };
  for (int first = threadIdx.x / vectors; first < K::m; first += rows_at_once * ahead) {
    int64_t at[ahead];
    Vector<T> value[ahead], x[ahead], y[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      at[k] = place_of(first + k * rows_at_once);
      if (at[k] < 0) continue;
      if (args.accumulate) value[k] = vector_at(args.result, at[k]);
      if (with_norm) x[k] = vector_at(norm.input, at[k]);
      if (masked) y[k] = vector_at(norm.output, at[k]);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      if (at[k] < 0) continue;
      float4 computed[E / 4];
#pragma unroll
      for (int i = 0; i < E / 4; ++i)
        computed[i] =
            *reinterpret_cast<const float4*>(result + (first + k * rows_at_once) * K::result_pitch + column + i * 4);
#pragma unroll
      for (int i = 0; i < E; ++i) {
        float here = reinterpret_cast<const float*>(computed)[i];
        if (args.accumulate) here += to_float(value[k].values[i]);
        if (masked && !(to_float(y[k].values[i]) > 0)) here = 0;
        value[k].values[i] = from_float<T>(here);
        if (!with_sums) continue;
        const float g = to_float(value[k].values[i]);
        total[i] += g;
        if (with_norm) product[i] += g * (to_float(x[k].values[i]) - statistics[i].x) * statistics[i].y;
      }
      *reinterpret_cast<Vector<T>*>(static_cast<T*>(args.result) + at[k]) = value[k];
    }
  }
  if (!with_sums) return;
  __syncthreads();
  auto* const partial = reinterpret_cast<float2*>(result);  // [rows_at_once][n], over the result
  static_assert(rows_at_once * K::n * 8 <= K::m * K::result_pitch * 4);
#pragma unroll
  for (int i = 0; i < E; ++i) partial[threadIdx.x / vectors * K::n + column + i] = make_float2(total[i], product[i]);
  __syncthreads();
  for (int i = threadIdx.x; i < K::n && c.n0 + i < c.columns; i += K::threads) {
    float2 all = partial[i];
    for (int part = 1; part < rows_at_once; ++part) {
      all.x += partial[part * K::n + i].x;
      all.y += partial[part * K::n + i].y;
    }
    partial_at(norm.sums, block, gridDim.x, block.index)[i] = all;
  }
  if (is_last_block(norm.sums, block))
    add_up(norm.sums, block, gridDim.x, scratch, [&](int channel, double2 all) {
      finish_backward(norm, c.slot, c.columns, channel, args.counts[c.slot] * s.height * s.width, all);
    });
}

}  // namespace fedgrab::cuda
