/// Convolutions on warp-group products fed by bulk copies. A tile of pixels is a set of *patches* of 64 pixels. A patch
/// comes to shared memory with a frame (zeros outside the image), 64 channels at a time; each tap multiplies the same
/// rows, beginning at another one. So an image is read 1.6 times for nine taps instead of nine times.
///   images of 8 x 8 and multiples: a patch is 8 x 8 pixels;
///   images of 4 x 4: a patch is the same half of eight images, and there is one copy for each column of taps, since
///   rows of four pixels leave no room for a frame beside them.
/// Under a stride of two, the pixels of one parity of row and column are an image of their own, a *plane*.
/// The weight gradient sums over pixels: there the three taps of a row are three blocks of columns of one operand.
#include <dlfcn.h>

#include <algorithm>

#include "convolution_result.cuh"
#include "patch_convolution.h"

#if CUDART_VERSION >= 12000
#include "hopper.cuh"

namespace fedgrab::cuda {
namespace {

constexpr int slice = 64;       // channels that lie together in a row of shared memory
constexpr int row_bytes = 128;  // of shared memory
constexpr int pattern = 1024;   // after so many bytes the permutation of chunks repeats

constexpr int aligned(int bytes) { return (bytes + pattern - 1) / pattern * pattern; }

__device__ inline unsigned char* align_shared(unsigned char* p) {
  return p + ((pattern - (shared_address(p) & (pattern - 1))) & (pattern - 1));
}

/// How the taps of a convolution are visited: in units, each of which is loaded once, by one box of one plane.
struct Walk {
  int units = 0, taps = 0;
  int box_width = 0, box_height = 0;
  // Packed, by tap: its number among the weights (4 bits), first row of the unit (6 bits), unit (3 bits).
  uint64_t weight = 0, shift = 0, unit = 0;
  // Packed, by unit: plane (2 bits), column and row of the box relative to the patch, plus one (2 bits each).
  uint64_t plane = 0, column = 0, row = 0;

  constexpr void begin_unit(int in_plane, int x, int y) {
    plane |= static_cast<uint64_t>(in_plane) << 2 * units;
    column |= static_cast<uint64_t>(x + 1) << 2 * units;
    row |= static_cast<uint64_t>(y + 1) << 2 * units;
    ++units;
  }
  constexpr void add_tap(int number, int first_row) {
    weight |= static_cast<uint64_t>(number) << 4 * taps;
    shift |= static_cast<uint64_t>(first_row) << 6 * taps;
    unit |= static_cast<uint64_t>(units - 1) << 3 * taps;
    ++taps;
  }
  __device__ constexpr int weight_of(int tap) const { return static_cast<int>(weight >> 4 * tap & 15); }
  __device__ constexpr int shift_of(int tap) const { return static_cast<int>(shift >> 6 * tap & 63); }
  __device__ constexpr int unit_of(int tap) const { return static_cast<int>(unit >> 3 * tap & 7); }
  __device__ constexpr int plane_of(int u) const { return static_cast<int>(plane >> 2 * u & 3); }
  __device__ constexpr int column_of(int u) const { return static_cast<int>(column >> 2 * u & 3) - 1; }
  __device__ constexpr int row_of(int u) const { return static_cast<int>(row >> 2 * u & 3) - 1; }
};

/// Plane 2 py + px has the pixels of row parity py and column parity px. `mirrored`: as the input gradient sees it.
constexpr Walk walk_of(int kernel, int stride, bool wide, bool mirrored) {
  Walk walk;
  if (kernel == 1) {
    walk.box_width = walk.box_height = wide ? 8 : 4;
    walk.begin_unit(0, 0, 0);
    walk.add_tap(0, 0);
  } else if (stride == 1) {
    walk.box_width = wide ? 10 : 4, walk.box_height = wide ? 10 : 6;
    for (int s = 0; s < (wide ? 1 : 3); ++s) {
      walk.begin_unit(0, s - 1, -1);
      for (int r = 0; r < 3; ++r)
        for (int q = wide ? 0 : s; q < (wide ? 3 : s + 1); ++q)
          walk.add_tap(mirrored ? (2 - r) * 3 + 2 - q : r * 3 + q, wide ? r * 10 + q : r * 4);
    }
  } else {  // odd rows and columns serve the outer taps, even ones the middle
    walk.box_width = wide ? 9 : 4, walk.box_height = wide ? 9 : 5;
    for (int py = 1; py >= 0; --py)
      for (int s = 0; s < (wide ? 2 : 3); ++s) {
        const int px = wide ? 1 - s : s != 1;
        walk.begin_unit(2 * py + px, (wide ? px == 1 : s == 0) ? -1 : 0, -py);
        for (int r = 1 - py; r < 3; r += 2)
          for (int q = wide ? 1 - px : s; q < (wide ? 3 : s + 1); q += 2)
            walk.add_tap(r * 3 + q, wide ? r / 2 * 9 + q / 2 : r / 2 * 4);
      }
  }
  return walk;
}

// Forward, and input gradient at stride one.

/// Boxes of the tensors, by plane where there is a stride.
struct PatchMaps {
  CUtensorMap pixels[4], weights, result[4];
  CUtensorMap input[4], output[4];  // of the norm below, for its half of the backward pass
};

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

/// resident: blocks on a multiprocessor. ahead: what the input gradient is combined with is loaded before the products
/// begin, not after they end.
template <Pass pass, int kernel, int stride, int width, int P, int BN, int groups, int a_stages, int b_stages,
          int resident, bool ahead>
struct PatchTile {
  static constexpr bool wide = width == 8, forward = pass == Pass::forward;
  static constexpr int m = 64 * P, n = BN, threads = 128 * groups;
  static constexpr int own = P / groups, group_columns = BN;
  static constexpr int images = 4 * P;  // narrow: in a tile
  static constexpr Walk walk = walk_of(kernel, stride, wide, pass == Pass::input_gradient);
  static constexpr int box_bytes = walk.box_width * walk.box_height * row_bytes;  // of a patch (wide) or image (narrow)
  static constexpr int patch_bytes = aligned(box_bytes);
  static constexpr int unit_bytes = wide ? P * patch_bytes : aligned(images * box_bytes);
  /// Distance of groups of eight rows.
  static constexpr int group_bytes = wide ? walk.box_width * row_bytes : box_bytes;
  static constexpr int tap_bytes = BN * row_bytes;
  static constexpr int operand_bytes = a_stages * unit_bytes + b_stages * tap_bytes;
  static constexpr int tensor_bytes = m * BN * 2;  // of the result, and of what it is combined with
  static constexpr int tensors = forward ? 1 : 3;
  static constexpr int sums_bytes = threads / 32 * BN * 8 + threads * 16;
  static constexpr int result_bytes = tensors * tensor_bytes + sums_bytes;
  static constexpr int shared_bytes = pattern + (ahead                          ? operand_bytes + result_bytes
                                                 : operand_bytes > result_bytes ? operand_bytes
                                                                                : result_bytes);
  static_assert(P % groups == 0 && unit_bytes % pattern == 0 && resident * (shared_bytes + 1024) <= 228 * 1024);
};

template <Pass pass, int kernel, int stride, int width, int P, int BN, int groups, int a_stages, int b_stages,
          int resident, bool ahead>
__global__ void __launch_bounds__(128 * groups, resident)
    multiply_patches(const __grid_constant__ PatchMaps maps, const __grid_constant__ Arguments args) {
#ifdef FEDGRAB_HOPPER_CODE
  using K = PatchTile<pass, kernel, stride, width, P, BN, groups, a_stages, b_stages, resident, ahead>;
  constexpr bool forward = pass == Pass::forward;
  extern __shared__ unsigned char unaligned[];
  __shared__ uint64_t full_a[a_stages], full_b[b_stages], combined_ready;
  const ConvolutionShape& s = args.shape;
  const int slot = blockIdx.z, n0 = blockIdx.y * BN, tid = threadIdx.x;
  const int count = args.counts[slot];
  const int first = blockIdx.x * (K::wide ? P : K::images);  // patch (wide) or image (narrow)
  const int there = K::wide ? count * static_cast<int>(args.by_pixels.divisor) : count;
  const int valid = min(K::wide ? P : K::images, there - first);
  if (valid <= 0) return;
  const int columns = forward ? s.out : s.in, slices = (forward ? s.in : s.out) / slice;
  constexpr Walk walk = K::walk;
  const int units = slices * walk.units, steps = slices * walk.taps;
  const BlockOfRows block{slot,
                          columns,
                          n0,
                          BN,
                          static_cast<int>(blockIdx.x),
                          (there + (K::wide ? P : K::images) - 1) / (K::wide ? P : K::images),
                          static_cast<int>(blockIdx.y)};

  unsigned char* const shared = align_shared(unaligned);
  unsigned char* const weights = shared + a_stages * K::unit_bytes;
  unsigned char* const tensors = shared + (ahead ? K::operand_bytes : 0);
  /// Corner of a patch (wide) in its image.
  const auto corner_of = [&](int patch, int& image, int& y, int& x) {
    image = args.by_pixels.quotient(patch);
    const int rest = args.by_pixels.remainder(patch, image), row = args.by_width.quotient(rest);
    y = row * 8;
    x = args.by_width.remainder(rest, row) * 8;
  };
  const auto load_unit = [&](int unit) {
    const int stage = unit % a_stages, part = unit % walk.units, channel = unit / walk.units * slice;
    const CUtensorMap& map = maps.pixels[walk.plane_of(part)];
    unsigned char* const to = shared + stage * K::unit_bytes;
    uint64_t* const barrier = &full_a[stage];
    if constexpr (K::wide) {
      barrier_expect(barrier, valid * K::box_bytes);
      for (int p = 0; p < valid; ++p) {
        int image, y, x;
        corner_of(first + p, image, y, x);
        copy_box(to + p * K::patch_bytes, map, barrier, channel, x + walk.column_of(part), y + walk.row_of(part),
                 slot * s.batch + image);
      }
    } else {
      barrier_expect(barrier, K::images * K::box_bytes);
      copy_box(to, map, barrier, channel, walk.column_of(part), walk.row_of(part), slot * s.batch + first);
    }
  };
  const auto load_weights = [&](int step) {
    const int stage = step % b_stages, channel = step / walk.taps * slice;
    const int place = walk.weight_of(step % walk.taps) * s.in;
    unsigned char* const to = weights + stage * K::tap_bytes;
    uint64_t* const barrier = &full_b[stage];
    barrier_expect(barrier, K::tap_bytes);
    if constexpr (forward) {
      copy_box(to, maps.weights, barrier, place + channel, n0, slot);
    } else {
      for (int j = 0; j < BN / slice; ++j)
        copy_box(to + j * slice * row_bytes, maps.weights, barrier, place + n0 + j * slice, channel, slot);
    }
  };
  constexpr int box_rows = K::wide ? 64 : 16;  // of the result
  const auto each_box = [&](auto use) {
    for (int j = 0; j < BN / slice; ++j)
      for (int i = 0; i < valid; ++i) {
        int image = first + i, y = 0, x = 0;
        if constexpr (K::wide) corner_of(first + i, image, y, x);
        use((j * K::m + i * box_rows) * row_bytes, n0 + j * slice, x, y, slot * s.batch + image, 0);
      }
  };
  const auto load_tensors = [&] {
    load_combined<K>(maps, args, &combined_ready, tensors, valid * box_rows * BN * 2, each_box);
  };

  if (tid == 0) {
    for (auto& barrier : full_a) barrier_init(&barrier);
    for (auto& barrier : full_b) barrier_init(&barrier);
    barrier_init(&combined_ready);
    barriers_ready();
    load_unit(0);
    for (int i = 0; i < min(b_stages, steps); ++i) load_weights(i);
    for (int i = 1; i < min(a_stages, units); ++i) load_unit(i);
    if (!forward && ahead) load_tensors();
  }
  __syncthreads();

  constexpr int own = K::own;
  const int group = tid / 128;
  float sum[own][BN / 2];
  for (int step = 0; step < steps; ++step) {
    const int tap = step % walk.taps, unit = step / walk.taps * walk.units + walk.unit_of(tap);
    const bool new_unit = tap == 0 || walk.unit_of(tap) != walk.unit_of(tap - 1);
    if (a_stages == 1 && new_unit && step > 0) {
      products_wait<0>();
      __syncthreads();
      if (tid == 0) load_unit(unit);
    }
    if (new_unit) barrier_wait(&full_a[unit % a_stages], unit / a_stages % 2);
    barrier_wait(&full_b[step % b_stages], step / b_stages % 2);
    const uint32_t a = shared_address(shared) + unit % a_stages * K::unit_bytes + walk.shift_of(tap) * row_bytes;
    const uint32_t b = shared_address(weights) + step % b_stages * K::tap_bytes;
    products_begin();
#pragma unroll
    for (int i = 0; i < own; ++i) {
      const int patch = group * own + i;
      const uint32_t begin =
          a + (K::wide ? patch * K::patch_bytes : patch / 2 * 8 * K::box_bytes + patch % 2 * pattern);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        multiply<false, !forward>(sum[i], operand(begin + k * 32, 16, K::group_bytes),
                                  forward ? operand(b + k * 32, 16, 8 * row_bytes)
                                          : operand(b + k * 16 * row_bytes, slice * row_bytes, 8 * row_bytes),
                                  step > 0 || k > 0);
    }
    products_commit();
    products_wait<1>();
    __syncthreads();  // all groups are through with the step before
    if (tid == 0 && step > 0) {
      if (step - 1 + b_stages < steps) load_weights(step - 1 + b_stages);
      if (a_stages > 1 && new_unit && unit - 1 + a_stages < units) load_unit(unit - 1 + a_stages);
    }
  }
  products_wait<0>();
  __syncthreads();
  if (!forward) {
    if (!ahead && tid == 0) load_tensors();
    barrier_wait(&combined_ready, 0);
  }
  finish_tile<K>(
      maps, args, block, sum, tensors,
      [&](int i, int pixel) {
        const int patch = group * own + i;
        const int row = K::wide ? patch * 64 + pixel : (patch / 2 * 8 + pixel / 8) * 16 + patch % 2 * 8 + pixel % 8;
        return row < valid * box_rows ? row : -1;
      },
      each_box);
#endif
}

// Input gradient at stride two: a patch of the output's gradient makes one of each plane.

template <int kernel, int width, int BN, int b_stages, int resident>
struct SpreadTile {
  static constexpr bool wide = width == 8, forward = false;
  /// Each warp group has all planes and 64 of the columns.
  static constexpr int m = 256, n = BN, threads = 2 * BN, own = 4, group_columns = slice;
  static constexpr int images = 4;  // narrow: in a tile
  /// Wide: one box with a frame behind it. Narrow: four boxes, one for each place of a tap.
  static constexpr int box_bytes = (wide ? 81 : 64) * row_bytes;
  static constexpr int unit_bytes = wide ? aligned(box_bytes) : 4 * box_bytes;
  static constexpr int tap_bytes = BN * row_bytes, taps = kernel * kernel;
  static constexpr int operand_bytes = 2 * unit_bytes + b_stages * tap_bytes;
  static constexpr int tensor_bytes = m * BN * 2, tensors = 3;
  static constexpr int sums_bytes = threads / 32 * group_columns * 8 + threads * 16;
  static constexpr int result_bytes = tensors * tensor_bytes + sums_bytes;
  static constexpr int shared_bytes = pattern + (operand_bytes > result_bytes ? operand_bytes : result_bytes);
  static_assert(resident * (shared_bytes + 1024) <= 228 * 1024);
};

template <int kernel, int width, int BN, int b_stages, int resident>
__global__ void __launch_bounds__(2 * BN, resident)
    spread_patches(const __grid_constant__ PatchMaps maps, const __grid_constant__ Arguments args) {
#ifdef FEDGRAB_HOPPER_CODE
  using K = SpreadTile<kernel, width, BN, b_stages, resident>;
  extern __shared__ unsigned char unaligned[];
  __shared__ uint64_t full_a[2], full_b[b_stages], combined_ready;
  const ConvolutionShape& s = args.shape;
  const int slot = blockIdx.z, n0 = blockIdx.y * BN, tid = threadIdx.x, group = tid / 128;
  const int count = args.counts[slot];
  const int first = blockIdx.x * (K::wide ? 1 : K::images);  // patch (wide) or image (narrow)
  const int there = K::wide ? count * static_cast<int>(args.by_pixels.divisor) : count;
  const int valid = min(K::wide ? 1 : K::images, there - first);
  if (valid <= 0) return;
  const int slices = s.out / slice, steps = slices * K::taps;
  const BlockOfRows block{slot,
                          s.in,
                          n0,
                          BN,
                          static_cast<int>(blockIdx.x),
                          K::wide ? there : (there + K::images - 1) / K::images,
                          static_cast<int>(blockIdx.y)};
  unsigned char* const shared = align_shared(unaligned);
  unsigned char* const weights = shared + 2 * K::unit_bytes;
  int image = first, corner_y = 0, corner_x = 0;
  if constexpr (K::wide) {
    image = args.by_pixels.quotient(first);
    const int rest = args.by_pixels.remainder(first, image), row = args.by_width.quotient(rest);
    corner_y = row * 8;
    corner_x = args.by_width.remainder(rest, row) * 8;
  }
  const auto load_unit = [&](int unit) {
    unsigned char* const to = shared + unit % 2 * K::unit_bytes;
    uint64_t* const barrier = &full_a[unit % 2];
    barrier_expect(barrier, (K::wide ? 1 : 4) * K::box_bytes);
    for (int i = 0; i < (K::wide ? 1 : 4); ++i)
      copy_box(to + i * K::box_bytes, maps.pixels[0], barrier, unit * slice, corner_x + i % 2, corner_y + i / 2,
               slot * s.batch + image);
  };
  const auto load_weights = [&](int step) {
    const int channel = step / K::taps * slice, place = step % K::taps * s.in + n0;
    uint64_t* const barrier = &full_b[step % b_stages];
    barrier_expect(barrier, K::tap_bytes);
    for (int j = 0; j < BN / slice; ++j)
      copy_box(weights + step % b_stages * K::tap_bytes + j * slice * row_bytes, maps.weights, barrier,
               place + j * slice, channel, slot);
  };
  constexpr int box_rows = K::wide ? 64 : 16;
  const auto each_box = [&](auto use) {
    for (int j = 0; j < BN / slice; ++j)
      for (int plane = 0; plane < 4; ++plane)
        for (int i = 0; i < valid; ++i)
          use((j * K::m + plane * 64 + i * box_rows) * row_bytes, n0 + j * slice, corner_x, corner_y,
              slot * s.batch + image + i, plane);
  };

  if (tid == 0) {
    for (auto& barrier : full_a) barrier_init(&barrier);
    for (auto& barrier : full_b) barrier_init(&barrier);
    barrier_init(&combined_ready);
    barriers_ready();
    load_unit(0);
    for (int i = 0; i < min(b_stages, steps); ++i) load_weights(i);
    if (slices > 1) load_unit(1);
  }
  __syncthreads();

  float sum[4][slice / 2];
  for (int unit = 0; unit < slices; ++unit) {
    barrier_wait(&full_a[unit % 2], unit / 2 % 2);
    const uint32_t a = shared_address(shared) + unit % 2 * K::unit_bytes;
#pragma unroll
    for (int tap = 0; tap < K::taps; ++tap) {
      const int step = unit * K::taps + tap, r = tap / 3, q = tap % 3;
      barrier_wait(&full_b[step % b_stages], step / b_stages % 2);
      const uint32_t b = shared_address(weights) + step % b_stages * K::tap_bytes + group * slice * row_bytes;
      // Pixels of odd rows see taps 0 and 2, of the next and of this row; even ones see tap 1. Columns likewise.
      const int plane = kernel == 1 ? 0 : 2 * (r != 1) + (q != 1);
      const int below = kernel == 3 && r == 0, right = kernel == 3 && q == 0;
      const bool starts = kernel == 1 || (r < 2 && q < 2);
      const uint32_t begin = a + (K::wide ? (below * 9 + right) * row_bytes : (below * 2 + right) * K::box_bytes);
      products_begin();
#pragma unroll
      for (int k = 0; k < 4; ++k)
        multiply<false, true>(sum[plane], operand(begin + k * 32, 16, (K::wide ? 9 : 8) * row_bytes),
                              operand(b + k * 16 * row_bytes, slice * row_bytes, 8 * row_bytes),
                              unit > 0 || !starts || k > 0);
      products_commit();
      products_wait<1>();
      __syncthreads();
      if (tid == 0 && step > 0) {
        if (step - 1 + b_stages < steps) load_weights(step - 1 + b_stages);
        if (tap == 0 && unit > 0 && unit + 1 < slices) load_unit(unit + 1);
      }
    }
  }
  products_wait<0>();
  __syncthreads();
  if (kernel == 1)  // one pixel of four has a product
#pragma unroll
    for (int plane = 1; plane < 4; ++plane)
#pragma unroll
      for (auto& value : sum[plane]) value = 0;
  if (tid == 0) load_combined<K>(maps, args, &combined_ready, shared, 4 * valid * box_rows * BN * 2, each_box);
  barrier_wait(&combined_ready, 0);
  finish_tile<K>(
      maps, args, block, sum, shared, [&](int i, int pixel) { return pixel < valid * box_rows ? i * 64 + pixel : -1; },
      each_box);
#endif
}

// Weight gradient: 64 outputs, 64 inputs and one row of taps or, with three warp groups, all three rows.

struct GradientMaps {
  CUtensorMap gradients, pixels[4];  // by plane
};

/// framed: the three taps of a row begin at neighbouring rows of one box with a frame. Else each tap has a copy of the
/// pixels that it sees.
template <int kernel, int stride, int width, int rows, bool framed, int stages>
struct GradientTile {
  using Element = bf16;
  static constexpr bool wide = width == 8;
  static constexpr int m = 64, n = 64 * kernel, threads = 128, E = 8;  // of a warp group
  static constexpr int result_pitch = n + 8;
  static constexpr int group_bytes = m * result_pitch * 4;
  static constexpr int images = wide ? 1 : 4;  // in a unit of 64 pixels
  static constexpr int box_width = framed ? 10 : width, box_height = width + rows - 1;
  static constexpr int copies = framed ? 1 : kernel;
  static constexpr int box_bytes = images * box_width * box_height * row_bytes, copy_bytes = aligned(box_bytes);
  static constexpr int stage_bytes = 64 * row_bytes + copies * copy_bytes;
  static constexpr int shared_bytes =
      pattern + (stages * stage_bytes > rows * group_bytes ? stages * stage_bytes : rows * group_bytes);
  static_assert(!framed || (wide && stride == 1 && kernel == 3));
  static_assert(rows == 1 || (kernel == 3 && stride == 1 && (framed || !wide)));
};

template <int kernel, int stride, int width, int rows, bool framed, int stages>
__global__ void __launch_bounds__(128 * rows, rows == 1 ? 3 : 1)
    multiply_gradients(const __grid_constant__ GradientMaps maps, const __grid_constant__ Arguments args) {
#ifdef FEDGRAB_HOPPER_CODE
  using K = GradientTile<kernel, stride, width, rows, framed, stages>;
  extern __shared__ unsigned char unaligned[];
  __shared__ uint64_t full[stages];
  const ConvolutionShape& s = args.shape;
  const int slot = blockIdx.z, tid = threadIdx.x, group = tid / 128;
  constexpr int rows_of_blocks = kernel / rows;  // of taps
  const int m0 = blockIdx.x * slice, c0 = blockIdx.y / rows_of_blocks * slice;
  const int tap_row = rows == 1 ? blockIdx.y % rows_of_blocks : group;
  const int count = args.counts[slot];
  if (count == 0) return;
  const int units = K::wide ? count * static_cast<int>(args.by_pixels.divisor) : (count + K::images - 1) / K::images;
  unsigned char* const shared = align_shared(unaligned);
  // Where the box of a tap begins, relative to the patch, and in which plane.
  const int begin_y = kernel == 1 ? 0 : rows > 1 ? -1 : stride == 1 ? tap_row - 1 : -(tap_row == 0);
  const int plane_row = kernel == 3 && stride == 2 ? tap_row != 1 : 0;
  const auto load = [&](int unit) {
    unsigned char* const gradients = shared + unit % stages * K::stage_bytes;
    unsigned char* const pixels = gradients + 64 * row_bytes;
    uint64_t* const barrier = &full[unit % stages];
    barrier_expect(barrier, 64 * row_bytes + K::copies * K::box_bytes);
    int image = unit * K::images, y = 0, x = 0;
    if constexpr (K::wide) {
      image = args.by_pixels.quotient(unit);
      const int rest = args.by_pixels.remainder(unit, image), row = args.by_width.quotient(rest);
      y = row * 8;
      x = args.by_width.remainder(rest, row) * 8;
    }
    copy_box(gradients, maps.gradients, barrier, m0, x, y, slot * s.batch + image);
    for (int copy = 0; copy < K::copies; ++copy) {
      const int begin_x = kernel == 1 ? 0 : stride == 1 ? copy - 1 : -(copy == 0);
      const int plane = 2 * plane_row + (kernel == 3 && stride == 2 ? copy != 1 : 0);
      copy_box(pixels + copy * K::copy_bytes, maps.pixels[plane], barrier, c0, x + begin_x, y + begin_y,
               slot * s.batch + image);
    }
  };

  if (tid == 0) {
    for (auto& barrier : full) barrier_init(&barrier);
    barriers_ready();
    for (int i = 0; i < min(stages, units); ++i) load(i);
  }
  __syncthreads();

  float sum[K::n / 2];
  for (int unit = 0; unit < units; ++unit) {
    barrier_wait(&full[unit % stages], unit / stages % 2);
    const uint32_t gradients = shared_address(shared) + unit % stages * K::stage_bytes;
    const uint32_t pixels = gradients + 64 * row_bytes + (rows == 1 ? 0 : tap_row * K::box_width * row_bytes);
    const int steps = K::wide ? 4 : min(K::images, count - unit * K::images);  // of 16 pixels
    products_begin();
    for (int k = 0; k < steps; ++k)
      multiply<true, true>(sum, operand(gradients + k * 16 * row_bytes, 16, 8 * row_bytes),
                           operand(pixels + k * (K::wide ? 2 * K::box_width : K::box_width * K::box_height) * row_bytes,
                                   framed ? row_bytes : K::copy_bytes, (framed ? K::box_width : 8) * row_bytes),
                           unit > 0 || k > 0);
    products_commit();
    products_wait<1>();
    __syncthreads();
    if (tid == 0 && unit > 0 && unit - 1 + stages < units) load(unit - 1 + stages);
  }
  products_wait<0>();
  __syncthreads();

  float* const result = reinterpret_cast<float*>(shared + group * K::group_bytes);
  const int warp = tid % 128 / 32, lane = tid % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int j = 0; j < K::n / 8; ++j)
      *reinterpret_cast<float2*>(result + (warp * 16 + h * 8 + lane / 4) * K::result_pitch + j * 8 + lane % 4 * 2) =
          make_float2(sum[j * 4 + h * 2], sum[j * 4 + h * 2 + 1]);
  __syncthreads();
  const auto place = [&](int row, int column) {
    return ((m0 + row) * kernel * kernel + tap_row * kernel + column / slice) * s.in + c0 + column % slice;
  };
  if (args.gradient != nullptr)
    write_gradient<K>(args, slot, tid % 128, result, place);
  else
    take_step<K>(args, slot, tid % 128, result, place);
#endif
}

// Host.

using Encode = decltype(&cuTensorMapEncodeTiled);

/// From the driver itself, so that the program starts where there is none. Null: there is none.
Encode encoder() {
  static const auto function = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return driver == nullptr ? nullptr : reinterpret_cast<Encode>(dlsym(driver, "cuTensorMapEncodeTiled"));
  }();
  return function;
}

/// Boxes of a bf16 tensor, channels first; strides in elements, of all dimensions but the first.
template <int rank>
CUtensorMap tensor_map(const void* data, const uint64_t (&size)[rank], const uint64_t (&stride)[rank - 1],
                       const uint32_t (&box)[rank]) {
  CUtensorMap map;
  uint64_t bytes[rank - 1];
  for (int i = 0; i < rank - 1; ++i) bytes[i] = stride[i] * 2;
  uint32_t ones[rank];
  for (auto& one : ones) one = 1;
  const CUresult status = encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, const_cast<void*>(data), size, bytes,
                                    box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw std::runtime_error("CUDA: a tensor map is refused (" + std::to_string(static_cast<int>(status)) + ")");
  return map;
}

struct Box {
  int width, height, images;
};

/// Boxes of a tensor of pixels; under a stride of two, of one of its planes.
CUtensorMap pixel_map(const ConvolutionShape& s, const void* data, int channels, int height, int width, int stride,
                      int plane, Box box) {
  const auto number = [](int n) { return static_cast<uint64_t>(n); };
  const uint64_t c = number(channels), w = number(width), h = number(height), apart = number(stride);
  const auto* const begin = static_cast<const bf16*>(data) + (number(plane / 2) * w + number(plane % 2)) * c;
  return tensor_map<4>(
      begin, {c, w / apart, h / apart, number(s.slots) * number(s.batch)}, {c * apart, c * w * apart, c * w * h},
      {slice, static_cast<uint32_t>(box.width), static_cast<uint32_t>(box.height), static_cast<uint32_t>(box.images)});
}
CUtensorMap input_map(const ConvolutionShape& s, const void* data, int stride, int plane, Box box) {
  return pixel_map(s, data, s.in, s.height, s.width, stride, plane, box);
}
CUtensorMap output_map(const ConvolutionShape& s, const void* data, Box box) {
  return pixel_map(s, data, s.out, s.out_height, s.out_width, 1, 0, box);
}

CUtensorMap weight_map(const ConvolutionShape& s, const Arguments& args, int rows) {
  const auto length = static_cast<uint64_t>(s.kernel * s.kernel) * static_cast<uint64_t>(s.in);
  return tensor_map<3>(args.b, {length, static_cast<uint64_t>(s.out), static_cast<uint64_t>(s.slots)},
                       {length, static_cast<uint64_t>(args.weight_stride)}, {slice, static_cast<uint32_t>(rows), 1});
}

void allow_shared(const void* kernel, int bytes) {
  if (const auto status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      status != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(status));
}

/// The tensors of a result: by plane under a stride.
void result_maps(PatchMaps& maps, const Arguments& args, int stride, Box box) {
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

int tiles_of_patches(const ConvolutionShape& s, int width, int patches) {
  return width == 8 ? ceil_div(int64_t{s.batch} * s.out_height * s.out_width / 64, patches)
                    : ceil_div(s.batch, 4 * patches);
}

template <Pass pass, int kernel, int stride, int width, int P, int BN, int groups, int a_stages, int b_stages,
          int resident, bool ahead = false>
void launch_tile(const Arguments& args, cudaStream_t stream) {
  using K = PatchTile<pass, kernel, stride, width, P, BN, groups, a_stages, b_stages, resident, ahead>;
  const auto function =
      multiply_patches<pass, kernel, stride, width, P, BN, groups, a_stages, b_stages, resident, ahead>;
  static const bool allowed = (allow_shared(reinterpret_cast<const void*>(function), K::shared_bytes), true);
  static_cast<void>(allowed);
  const ConvolutionShape& s = args.shape;
  const Box box{K::walk.box_width, K::walk.box_height, K::wide ? 1 : K::images}, whole{width, width, 1};
  PatchMaps maps{};
  if constexpr (pass == Pass::forward) {
    for (int plane = 0; plane < stride * stride; ++plane) maps.pixels[plane] = input_map(s, args.a, stride, plane, box);
    maps.result[0] = output_map(s, args.result, whole);
  } else {
    maps.pixels[0] = output_map(s, args.a, box);
    result_maps(maps, args, 1, whole);
  }
  maps.weights = weight_map(s, args, pass == Pass::forward ? BN : slice);
  const int columns = pass == Pass::forward ? s.out : s.in;
  function<<<dim3(tiles_of_patches(s, width, P), columns / BN, s.slots), K::threads, K::shared_bytes, stream>>>(maps,
                                                                                                                args);
  check_launch("convolution by patches");
}

template <int kernel, int width, int BN, int b_stages, int resident>
void launch_spread(const Arguments& args, cudaStream_t stream) {
  using K = SpreadTile<kernel, width, BN, b_stages, resident>;
  const auto function = spread_patches<kernel, width, BN, b_stages, resident>;
  static const bool allowed = (allow_shared(reinterpret_cast<const void*>(function), K::shared_bytes), true);
  static_cast<void>(allowed);
  const ConvolutionShape& s = args.shape;
  PatchMaps maps{};
  maps.pixels[0] = output_map(s, args.a, K::wide ? Box{9, 9, 1} : Box{4, 4, K::images});
  maps.weights = weight_map(s, args, slice);
  result_maps(maps, args, 2, {width, width, 1});
  function<<<dim3(tiles_of_patches(s, width, 1), s.in / BN, s.slots), K::threads, K::shared_bytes, stream>>>(maps,
                                                                                                             args);
  check_launch("input gradient by patches");
}

template <int kernel, int stride, int width, int rows, bool framed, int stages>
void launch_gradient(const Arguments& args, cudaStream_t stream) {
  using K = GradientTile<kernel, stride, width, rows, framed, stages>;
  const auto function = multiply_gradients<kernel, stride, width, rows, framed, stages>;
  static const bool allowed = (allow_shared(reinterpret_cast<const void*>(function), K::shared_bytes), true);
  static_cast<void>(allowed);
  const ConvolutionShape& s = args.shape;
  GradientMaps maps{};
  maps.gradients = output_map(s, args.a, {width, width, K::images});
  for (int plane = 0; plane < stride * stride; ++plane)
    maps.pixels[plane] = input_map(s, args.b, stride, plane, {K::box_width, K::box_height, K::images});
  function<<<dim3(s.out / slice, s.in / slice * (kernel / rows), s.slots), 128 * rows, K::shared_bytes, stream>>>(maps,
                                                                                                                  args);
  check_launch("weight gradient by patches");
}

template <int kernel, int stride, int width>
void launch_forward(const Arguments& args, int tile, cudaStream_t stream) {
  constexpr auto pass = Pass::forward;
  switch (tile) {
    case 0: return launch_tile<pass, kernel, stride, width, 2, 64, 2, 1, 4, 3>(args, stream);
    case 1: return launch_tile<pass, kernel, stride, width, 2, 128, 2, 2, 3, 2>(args, stream);
    case 2: return launch_tile<pass, kernel, stride, width, 4, 64, 2, 1, 4, 2>(args, stream);
    case 3:
      if constexpr (width == 8) return launch_tile<pass, kernel, stride, width, 1, 128, 1, 2, 4, 2>(args, stream);
      break;
    case 4: return launch_tile<pass, kernel, stride, width, 4, 128, 2, 2, 4, 1>(args, stream);
    default: break;
  }
  throw std::logic_error("no such tile");
}

template <int kernel, int stride, int width>
void launch_input_gradient(const Arguments& args, int tile, cudaStream_t stream) {
  constexpr auto pass = Pass::input_gradient;
  if constexpr (stride == 2) {
    switch (tile) {
      case 0: return launch_spread < kernel, width, 64, width == 8 ? 4 : 2, 2 > (args, stream);
      case 1: return launch_spread<kernel, width, 128, 3, 1>(args, stream);
      default: break;
    }
  } else {
    switch (tile) {
      case 0: return launch_tile<pass, kernel, stride, width, 2, 64, 2, 1, 3, 2, true>(args, stream);
      case 1: return launch_tile<pass, kernel, stride, width, 2, 128, 2, 2, 3, 2>(args, stream);
      case 2: return launch_tile<pass, kernel, stride, width, 4, 64, 2, 1, 4, 2>(args, stream);
      case 3:
        if constexpr (width == 8) return launch_tile<pass, kernel, stride, width, 1, 128, 1, 2, 4, 2>(args, stream);
        break;
      case 4: return launch_tile<pass, kernel, stride, width, 4, 128, 2, 2, 4, 1>(args, stream);
      default: break;
    }
  }
  throw std::logic_error("no such tile");
}

template <int kernel, int stride, int width>
void launch_weight_gradient(const Arguments& args, int tile, cudaStream_t stream) {
  constexpr bool framed = width == 8 && kernel == 3 && stride == 1;
  switch (tile) {
    case 0: return launch_gradient < kernel, stride, width, 1, framed, framed ? 3 : 2 > (args, stream);
    case 1:
      if constexpr (kernel == 3 && stride == 1)
        return launch_gradient < kernel, stride, width, 3, framed, framed ? 6 : 4 > (args, stream);
      break;
    default: break;
  }
  throw std::logic_error("no such tile");
}

template <int kernel, int stride, int width>
void launch(Pass pass, const Arguments& args, int tile, cudaStream_t stream) {
  switch (pass) {
    case Pass::forward: return launch_forward<kernel, stride, width>(args, tile, stream);
    case Pass::input_gradient: return launch_input_gradient<kernel, stride, width>(args, tile, stream);
    case Pass::weight_gradient: return launch_weight_gradient<kernel, stride, width>(args, tile, stream);
  }
}

template <int width>
void launch(Pass pass, const Arguments& args, int tile, cudaStream_t stream) {
  const ConvolutionShape& s = args.shape;
  if (s.stride == 1)
    launch<3, 1, width>(pass, args, tile, stream);
  else if (s.kernel == 3)
    launch<3, 2, width>(pass, args, tile, stream);
  else
    launch<1, 2, width>(pass, args, tile, stream);
}

bool on_hopper() {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == 9 && minor == 0 && encoder() != nullptr;
}

}  // namespace

bool patch_tile_fits(Pass pass, const ConvolutionShape& s, int tile) {
  if (tile < 0 || tile >= patch_tiles || !on_hopper()) return false;
  const bool narrow = s.out_height == 4 && s.out_width == 4;
  if (!narrow && (s.out_height % 8 != 0 || s.out_width % 8 != 0)) return false;
  if (s.in % slice != 0 || s.out % slice != 0 || s.height != s.out_height * s.stride ||
      s.width != s.out_width * s.stride)
    return false;
  const bool outer = s.kernel == 3 && s.padding == 1, inner = s.kernel == 1 && s.padding == 0;
  if (!(outer && (s.stride == 1 || s.stride == 2)) && !(inner && s.stride == 2)) return false;
  if (pass == Pass::weight_gradient) return tile == 0 || (tile == 1 && s.kernel == 3 && s.stride == 1);
  const int columns = pass == Pass::forward ? s.out : s.in;
  if (pass == Pass::input_gradient && s.stride == 2) return tile == 0 || (tile == 1 && columns % 128 == 0);
  return (tile == 0 || tile == 2 || columns % 128 == 0) && !(narrow && tile == 3);
}

void launch_patches(Pass pass, const Arguments& given, int tile, cudaStream_t stream) {
  Arguments args = given;
  const int height = args.shape.out_height, width = args.shape.out_width;
  args.by_pixels = Divider(std::max(1, height / 8 * (width / 8)));
  args.by_width = Divider(std::max(1, width / 8));
  if (width == 4)
    launch<4>(pass, args, tile, stream);
  else
    launch<8>(pass, args, tile, stream);
}

}  // namespace fedgrab::cuda

#else  // the compiler does not know the instructions

namespace fedgrab::cuda {

bool patch_tile_fits(Pass, const ConvolutionShape&, int) { return false; }
void launch_patches(Pass, const Arguments&, int, cudaStream_t) { throw std::logic_error("no such tile"); }

}  // namespace fedgrab::cuda

#endif
