/// What becomes of the products of a tile of pixels: the result in bf16, combined with what an input gradient is
/// combined with, and the sums of the norms.
#pragma once

#include "patches.cuh"

namespace fedgrab::cuda {

/// Boxes of the tensors, by plane where there is a stride.
struct PatchMaps {
  CUtensorMap pixels[4], weights, result[4];
  CUtensorMap input[4], output[4];  // of the norm below, for its half of the backward pass
};

/// The tensors of a result: by plane under a stride.
inline void result_maps(PatchMaps& maps, const Arguments& args, int stride, Box box) {
  const auto& norm = args.backward;
  for (int plane = 0; plane < stride * stride; ++plane) {
    const auto map = [&](const void* data) {
      return input_map(args.shape, data == nullptr ? args.result : data, stride, plane, box);
    };
    maps.result[plane] = map(args.result);
    maps.input[plane] = map(norm.input);
    maps.output[plane] = map(norm.output);
  }
}

#ifdef FEDGRAB_HOPPER_CODE

/// What follows the products of a tile: bf16 results, combined with what the input gradient is combined with, the sums
/// of the norms, and bulk stores. In shared memory: up to three tensors of the tile (the result and before that what it
/// is added to, the norm's input, its output), in rows of 64 channels; then the sums of the warps.
/// K: m rows and n columns, of which a warp group has `own` patches and `group_columns` columns.
/// row_of(i, pixel): row of the tile of a pixel of the i-th own patch, −1: none. each_box(use): calls use(bytes from
/// the begin of a tensor, channel, x, y, image, plane) for all boxes of 64 channels, of `loaded_bytes` together.
template <class K, class EachBox>
__device__ void load_combined(const PatchMaps& maps, const Arguments& args, uint64_t* barrier, unsigned char* tensors,
                              int loaded_bytes, EachBox each_box) {
  const bool masked = args.backward.sums.partial != nullptr && args.backward.output != nullptr;
  const bool normed = args.backward.sums.partial != nullptr && args.backward.input != nullptr;
  barrier_expect(barrier, (args.accumulate + normed + masked) * loaded_bytes);
  each_box([&](int place, int c, int x, int y, int image, int plane) {
    unsigned char* const to = tensors + place;
    if (args.accumulate) copy_box(to, maps.result[plane], barrier, c, x, y, image);
    if (normed) copy_box(to + K::tensor_bytes, maps.input[plane], barrier, c, x, y, image);
    if (masked) copy_box(to + 2 * K::tensor_bytes, maps.output[plane], barrier, c, x, y, image);
  });
}

template <class K, class RowOf, class EachBox>
__device__ void finish_tile(const PatchMaps& maps, const Arguments& args, const BlockOfRows& block,
                            const float (&sum)[K::own][K::group_columns / 2], unsigned char* tensors, RowOf row_of,
                            EachBox each_box) {
  constexpr int columns = K::group_columns;
  constexpr int sharing = columns == K::n ? K::threads / 32 : 4;  // warps that have the same columns
  const ConvolutionShape& s = args.shape;
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int first_column = warp / sharing * columns;
  const RowSums sums = K::forward ? args.forward.sums : args.backward.sums;
  const bool with_sums = sums.partial != nullptr;
  const bool normed = !K::forward && with_sums && args.backward.input != nullptr;
  const bool masked = !K::forward && with_sums && args.backward.output != nullptr;
  auto* const warp_sums = reinterpret_cast<float2*>(tensors + K::tensors * K::tensor_bytes);
  auto* const scratch = reinterpret_cast<double2*>(warp_sums + K::threads / 32 * columns);
  // Two rows of a patch and, of every eight columns, two are a thread's.
#pragma unroll
  for (int j = 0; j < columns / 8; ++j) {
    float2 total{0, 0}, product{0, 0};
    float4 statistics{0, 1, 0, 1};  // mean and 1/σ of both columns
    if (normed)
      statistics = *reinterpret_cast<const float4*>(args.backward.statistics + int64_t{block.slot} * block.channels +
                                                    block.first + first_column + j * 8 + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < K::own; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = row_of(i, warp % 4 * 16 + h * 8 + lane / 4);
        if (row < 0) continue;
        unsigned char* const at = tensors + ((first_column / slice + j / 8) * K::m + row) * row_bytes +
                                  (j % 8 ^ lane / 4) * 16 + lane % 4 * 4;
        float2 value = make_float2(sum[i][j * 4 + h * 2], sum[i][j * 4 + h * 2 + 1]);
        const auto pair_at = [&](int tensor) {
          return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(at + tensor * K::tensor_bytes));
        };
        if (!K::forward && args.accumulate) {
          const float2 before = pair_at(0);
          value.x += before.x, value.y += before.y;
        }
        if (masked) {
          const float2 behind = pair_at(2);
          if (!(behind.x > 0)) value.x = 0;
          if (!(behind.y > 0)) value.y = 0;
        }
        const __nv_bfloat162 rounded = __floats2bfloat162_rn(value.x, value.y);
        *reinterpret_cast<__nv_bfloat162*>(at) = rounded;
        if (!with_sums) continue;
        value = __bfloat1622float2(rounded);  // as it will be read
        total.x += value.x, total.y += value.y;
        if (K::forward) {
          product.x += value.x * value.x, product.y += value.y * value.y;
        } else if (normed) {
          const float2 x = pair_at(1);
          product.x += value.x * (x.x - statistics.x) * statistics.y;
          product.y += value.y * (x.y - statistics.z) * statistics.w;
        }
      }
    if (!with_sums) continue;
#pragma unroll
    for (int other = 4; other < 32; other *= 2) {
      total.x += __shfl_xor_sync(0xFFFFFFFF, total.x, other);
      total.y += __shfl_xor_sync(0xFFFFFFFF, total.y, other);
      product.x += __shfl_xor_sync(0xFFFFFFFF, product.x, other);
      product.y += __shfl_xor_sync(0xFFFFFFFF, product.y, other);
    }
    if (lane < 4)
      *reinterpret_cast<float4*>(warp_sums + warp * columns + j * 8 + lane * 2) =
          make_float4(total.x, product.x, total.y, product.y);
  }
  stores_ready();
  __syncthreads();
  if (tid == 0)
    each_box([&](int place, int c, int x, int y, int image, int plane) {
      store_box(tensors + place, maps.result[plane], c, x, y, image);
    });
  if (with_sums) {
    for (int c = tid; c < K::n; c += K::threads) {
      const float2* const own = warp_sums + c / columns * sharing * columns + c % columns;
      float2 all = *own;
      for (int other = 1; other < sharing; ++other) {
        all.x += own[other * columns].x;
        all.y += own[other * columns].y;
      }
      partial_at(sums, block, gridDim.x, block.index)[c] = all;
    }
    const int count = args.counts[block.slot];
    if (is_last_block(sums, block))
      add_up(sums, block, gridDim.x, scratch, [&](int channel, double2 all) {
        if constexpr (K::forward)
          finish_statistics(args.forward, block.slot, block.channels, channel, count * s.out_height * s.out_width, all);
        else
          finish_backward(args.backward, block.slot, block.channels, channel, count * s.height * s.width, all);
      });
  }
  if (tid == 0) boxes_stored();
}
#endif

}  // namespace fedgrab::cuda
