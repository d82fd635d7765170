/// Weight gradient: a sum over pixels, for 64 outputs, 64 inputs and one row of taps or, with three warp groups, all
/// three rows. The three taps of a row are three blocks of columns of one operand.
#include "patch_convolution.h"
#include "patches.cuh"

namespace fedgrab::cuda {
namespace {

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

template <int kernel, int stride, int width, int rows, bool framed, int stages>
void launch_gradient(const Arguments& args, cudaStream_t stream) {
  using K = GradientTile<kernel, stride, width, rows, framed, stages>;
  const ConvolutionShape& s = args.shape;
  GradientMaps maps{};
  maps.gradients = output_map(s, args.a, {width, width, K::images});
  for (int plane = 0; plane < stride * stride; ++plane)
    maps.pixels[plane] = input_map(s, args.b, stride, plane, {K::box_width, K::box_height, K::images});
  launch_kernel<multiply_gradients<kernel, stride, width, rows, framed, stages>>(
      "weight gradient by patches", dim3(s.out / slice, s.in / slice * (kernel / rows), s.slots), 128 * rows,
      K::shared_bytes, stream, maps, args);
}

template <int kernel, int stride, int width>
void launch_weight_gradient(const Arguments& args, int tile, cudaStream_t stream) {
  constexpr bool framed = width == 8 && kernel == 3 && stride == 1;
  switch (tile) {
    case 0: return launch_gradient<kernel, stride, width, 1, framed, (framed ? 3 : 2)>(args, stream);
    case 1:
      if constexpr (kernel == 3 && stride == 1)
        return launch_gradient<kernel, stride, width, 3, framed, (framed ? 6 : 4)>(args, stream);
      break;
    default: break;
  }
  throw std::logic_error("no such tile");
}

template <int width>
void launch_weight_gradient(const Arguments& args, int tile, cudaStream_t stream) {
  if (args.shape.stride == 1)
    launch_weight_gradient<3, 1, width>(args, tile, stream);
  else if (args.shape.kernel == 3)
    launch_weight_gradient<3, 2, width>(args, tile, stream);
  else
    launch_weight_gradient<1, 2, width>(args, tile, stream);
}

}  // namespace

void patch_weight_gradient(const Arguments& args, int tile, cudaStream_t stream) {
  is_narrow(args.shape) ? launch_weight_gradient<4>(args, tile, stream) : launch_weight_gradient<8>(args, tile, stream);
}

}  // namespace fedgrab::cuda
