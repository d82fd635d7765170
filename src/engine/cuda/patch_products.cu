/// Forward pass, and input gradient at stride one. A patch comes to shared memory with a frame of one pixel (zeros
/// outside the image); each tap multiplies the same rows, beginning at another one. So an image is read 1.6 times for
/// nine taps instead of nine times. A frame beside rows of four pixels would break their groups of eight: narrow images
/// have one copy for each column of taps instead, and a patch is the same half of eight images.
#include "patch_convolution.h"
#include "patch_result.cuh"

namespace fedgrab::cuda {
namespace {

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

template <Pass pass, int kernel, int stride, int width, int P, int BN, int groups, int a_stages, int b_stages,
          int resident, bool ahead = false>
void launch_tile(const Arguments& args, cudaStream_t stream) {
  using K = PatchTile<pass, kernel, stride, width, P, BN, groups, a_stages, b_stages, resident, ahead>;
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
  launch_kernel<multiply_patches<pass, kernel, stride, width, P, BN, groups, a_stages, b_stages, resident, ahead>>(
      "convolution by patches", dim3(tiles_of_patches(s, width, P), columns / BN, s.slots), K::threads, K::shared_bytes,
      stream, maps, args);
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

template <int width>
void launch_forward(const Arguments& args, int tile, cudaStream_t stream) {
  if (args.shape.stride == 1)
    launch_forward<3, 1, width>(args, tile, stream);
  else if (args.shape.kernel == 3)
    launch_forward<3, 2, width>(args, tile, stream);
  else
    launch_forward<1, 2, width>(args, tile, stream);
}

template <int width>
void launch_input_gradient(const Arguments& args, int tile, cudaStream_t stream) {
  constexpr auto pass = Pass::input_gradient;
  switch (tile) {
    case 0: return launch_tile<pass, 3, 1, width, 2, 64, 2, 1, 3, 2, true>(args, stream);
    case 1: return launch_tile<pass, 3, 1, width, 2, 128, 2, 2, 3, 2>(args, stream);
    case 2: return launch_tile<pass, 3, 1, width, 4, 64, 2, 1, 4, 2>(args, stream);
    case 3:
      if constexpr (width == 8) return launch_tile<pass, 3, 1, width, 1, 128, 1, 2, 4, 2>(args, stream);
      break;
    case 4: return launch_tile<pass, 3, 1, width, 4, 128, 2, 2, 4, 1>(args, stream);
    default: break;
  }
  throw std::logic_error("no such tile");
}

}  // namespace

void patch_forward(const Arguments& args, int tile, cudaStream_t stream) {
  is_narrow(args.shape) ? launch_forward<4>(args, tile, stream) : launch_forward<8>(args, tile, stream);
}

void patch_input_gradient(const Arguments& args, int tile, cudaStream_t stream) {
  is_narrow(args.shape) ? launch_input_gradient<4>(args, tile, stream) : launch_input_gradient<8>(args, tile, stream);
}

}  // namespace fedgrab::cuda
