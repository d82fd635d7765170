/// Input gradient at stride two: a patch of the output's gradient makes one patch of each plane of the input's
/// gradient.
#include "patch_convolution.h"
#include "patch_result.cuh"

namespace fedgrab::cuda {
namespace {

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

template <int kernel, int width, int BN, int b_stages, int resident>
void launch_spread(const Arguments& args, cudaStream_t stream) {
  using K = SpreadTile<kernel, width, BN, b_stages, resident>;
  const ConvolutionShape& s = args.shape;
  PatchMaps maps{};
  maps.pixels[0] = output_map(s, args.a, K::wide ? Box{9, 9, 1} : Box{4, 4, K::images});
  maps.weights = weight_map(s, args, slice);
  result_maps(maps, args, 2, {width, width, 1});
  launch_kernel<spread_patches<kernel, width, BN, b_stages, resident>>(
      "input gradient by patches", dim3(tiles_of_patches(s, width, 1), s.in / BN, s.slots), K::threads, K::shared_bytes,
      stream, maps, args);
}

template <int kernel, int width>
void launch_spread(const Arguments& args, int tile, cudaStream_t stream) {
  switch (tile) {
    case 0: return launch_spread<kernel, width, 64, (width == 8 ? 4 : 2), 2>(args, stream);
    case 1: return launch_spread<kernel, width, 128, 3, 1>(args, stream);
    default: throw std::logic_error("no such tile");
  }
}

}  // namespace

void patch_input_gradient_strided(const Arguments& args, int tile, cudaStream_t stream) {
  const bool narrow = is_narrow(args.shape);
  if (args.shape.kernel == 3)
    narrow ? launch_spread<3, 4>(args, tile, stream) : launch_spread<3, 8>(args, tile, stream);
  else
    narrow ? launch_spread<1, 4>(args, tile, stream) : launch_spread<1, 8>(args, tile, stream);
}

}  // namespace fedgrab::cuda
