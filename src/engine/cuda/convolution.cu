/// Convolutions of many clients as one batched implicit matrix product on the tensor cores. The three passes differ
/// only in where the operands come from and in what becomes of the result:
///   forward          Y[pixel, out]      = Σ over (tap, in)    X[pixel + tap, in] · W[out, tap, in]
///   input gradient   dX[pixel, in]      = Σ over (tap, out)   dY[pixel − tap, out] · W[out, tap, in]
///   weight gradient  dW[out, (tap, in)] = Σ over pixels       dY[pixel, out] · X[pixel + tap, in]
/// Nothing is unfolded in memory: a tile gathers its 16-byte chunks (channels lie together) straight from the tensor,
/// with zeros outside the image.
#include <type_traits>

#include "convolution_result.cuh"
#include "patch_convolution.h"
#include "tensor_core.cuh"

namespace fedgrab::cuda {
namespace {

/// A tile in shared memory. Along: the summed index lies together in a row (8 chunks); across: each row is one summed
/// index. Chunks are permuted by the row so that the eight rows of a matrix load hit different banks.
template <int chunks>
__device__ inline int place_chunk(int row, int c) {
  constexpr int mask = chunks < 8 ? chunks - 1 : 7;
  return row * chunks + (c ^ (row & mask));
}

template <Pass pass, class T, bool exact, int BM, int BN, int warps_m, int warps_n, int stages>
struct Tile {
  using Element = T;
  static constexpr Pass of = pass;
  static constexpr int m = BM, n = BN;
  static constexpr int threads = warps_m * warps_n * 32;
  static constexpr int E = chunk<T>;
  static constexpr int depth = 8 * E;  // of the sum, per stage: 128 bytes
  static constexpr bool a_along = pass != Pass::weight_gradient;
  static constexpr bool b_along = pass == Pass::forward;
  static constexpr int a_row_chunks = a_along ? 8 : BM / E, b_row_chunks = b_along ? 8 : BN / E;
  static constexpr int a_chunks = BM * depth / E, b_chunks = BN * depth / E;
  static constexpr int stage_bytes = (a_chunks + b_chunks) * 16;
  static constexpr int result_pitch = BN + 4;
  static constexpr int sums_bytes = threads * 16;  // behind the result: a pair of doubles per thread
  static constexpr int result_bytes = BM * result_pitch * 4 + sums_bytes;
  static constexpr int shared_bytes = stages * stage_bytes > result_bytes ? stages* stage_bytes : result_bytes;
  static constexpr int mi = BM / warps_m / 16, ni = BN / warps_n / 8;
  static_assert(ni % 2 == 0);
};

template <Pass pass, class T, bool exact, int BM, int BN, int warps_m, int warps_n, int stages>
__global__ void __launch_bounds__(warps_m* warps_n * 32, exact                   ? 1
                                                         : warps_m* warps_n == 8 ? 2
                                                                                 : 3) multiply(const Arguments args) {
  using K = Tile<pass, T, exact, BM, BN, warps_m, warps_n, stages>;
  constexpr int E = K::E, depth = K::depth, threads = K::threads;
  extern __shared__ __align__(128) unsigned char shared[];
  const ConvolutionShape& s = args.shape;
  const int slot = blockIdx.z;
  const int count = args.counts[slot];
  const int tid = threadIdx.x;
  const int n0 = blockIdx.y * BN;

  // The rows of the result, and how many terms the sum has.
  const int kernel = s.kernel, taps = kernel * kernel;
  int m0, rows, terms, columns;
  BlockOfRows block{slot, 0, n0, BN, static_cast<int>(blockIdx.x), 0, static_cast<int>(blockIdx.y)};
  // Input gradient under a stride: pixels of one parity see the same taps, and only those are visited.
  int r_first = 0, s_first = 0, r_step = 1, tap_columns = kernel, parity_y = 0, parity_x = 0;
  int grid_height = s.height, grid_width = s.width;
  if constexpr (pass == Pass::forward) {
    m0 = blockIdx.x * BM;
    rows = count * s.out_height * s.out_width;
    terms = taps * s.in;
    columns = s.out;
    block.blocks = (rows + BM - 1) / BM;
  } else if constexpr (pass == Pass::input_gradient) {
    const int stride = s.stride;
    grid_height = (s.height + stride - 1) / stride;
    grid_width = (s.width + stride - 1) / stride;
    const int blocks = (s.batch * grid_height * grid_width + BM - 1) / BM;
    const int parity = blockIdx.x / blocks;
    m0 = (blockIdx.x - parity * blocks) * BM;
    parity_y = parity / stride;
    parity_x = parity - parity_y * stride;
    rows = count * grid_height * grid_width;
    const int filled = (rows + BM - 1) / BM;
    block.index = parity * filled + m0 / BM;
    block.blocks = stride * stride * filled;
    r_first = (parity_y + s.padding) % stride;
    s_first = (parity_x + s.padding) % stride;
    r_step = stride;
    const int tap_rows = r_first < kernel ? (kernel - r_first + stride - 1) / stride : 0;
    tap_columns = s_first < kernel ? (kernel - s_first + stride - 1) / stride : 0;
    terms = tap_rows * tap_columns * s.out;
    columns = s.in;
  } else {
    m0 = blockIdx.x * BM;
    rows = count > 0 ? s.out : 0;
    terms = count * s.out_height * s.out_width;
    columns = taps * s.in;
  }
  if (m0 >= rows) return;
  block.channels = columns;
  const T* const weights = static_cast<const T*>(args.b) + slot * args.weight_stride;
  const int64_t input_size = int64_t{s.batch} * s.height * s.width * s.in;
  const int64_t output_size = int64_t{s.batch} * s.out_height * s.out_width * s.out;

  // Operand A. Along: thread t loads chunk t % 8 of rows t / 8 + i · threads / 8.
  constexpr int a_loads = K::a_chunks / threads, b_loads = K::b_chunks / threads;
  constexpr int a_rows_per_pass = threads / K::a_row_chunks, b_rows_per_pass = threads / K::b_row_chunks;
  const int a_chunk = tid % K::a_row_chunks, a_row = tid / K::a_row_chunks;
  const int b_chunk = tid % K::b_row_chunks, b_row = tid / K::b_row_chunks;
  int a_base[K::a_along ? a_loads : 1];
  int a_yx[K::a_along ? a_loads : 1];  // row and column of the first tap, 16 bits each, biased by 2¹⁴
  const T* a_source;
  if constexpr (pass == Pass::forward) {
    a_source = static_cast<const T*>(args.a) + slot * input_size;
#pragma unroll
    for (int i = 0; i < a_loads; ++i) {
      const int m = m0 + a_row + i * a_rows_per_pass;
      const int image = args.by_pixels.quotient(m), pixel = args.by_pixels.remainder(m, image);
      const int y = args.by_width.quotient(pixel), x = args.by_width.remainder(pixel, y);
      const int iy = y * s.stride - s.padding, ix = x * s.stride - s.padding;
      a_base[i] = ((image * s.height + iy) * s.width + ix) * s.in;
      a_yx[i] = m < rows ? ((iy + 0x4000) << 16) | (ix + 0x4000) : 0;
    }
  } else if constexpr (pass == Pass::input_gradient) {
    a_source = static_cast<const T*>(args.a) + slot * output_size;
#pragma unroll
    for (int i = 0; i < a_loads; ++i) {
      const int m = m0 + a_row + i * a_rows_per_pass;
      const int image = args.by_pixels.quotient(m), pixel = args.by_pixels.remainder(m, image);
      const int gy = args.by_width.quotient(pixel), gx = args.by_width.remainder(pixel, gy);
      // dY row of the first tap; each further tap is one row or column less.
      const int oy = (gy * s.stride + parity_y + s.padding - r_first) / s.stride;
      const int ox = (gx * s.stride + parity_x + s.padding - s_first) / s.stride;
      a_base[i] = ((image * s.out_height + oy) * s.out_width + ox) * s.out;
      a_yx[i] = m < rows ? ((oy + 0x4000) << 16) | (ox + 0x4000) : 0;
    }
  } else {
    a_source = static_cast<const T*>(args.a) + slot * output_size;
  }
  // Weight gradient: the columns of a thread, one (tap, in) for the whole sum.
  int w_r = 0, w_s = 0, w_c = 0;
  const T* const x_source = static_cast<const T*>(args.b) + slot * input_size;
  const bool b_column_valid = n0 + b_chunk * E < columns;
  if constexpr (pass == Pass::weight_gradient) {
    const int n = n0 + b_chunk * E;
    const int tap = args.by_in.quotient(n);
    w_c = args.by_in.remainder(n, tap);
    w_r = args.by_kernel.quotient(tap);
    w_s = args.by_kernel.remainder(tap, w_r);
  }

  const auto shared_base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const auto load_stage = [&](int stage, int k0) {
    const uint32_t a_tile = shared_base + stage * K::stage_bytes, b_tile = a_tile + K::a_chunks * 16;
    if constexpr (pass == Pass::forward || pass == Pass::input_gradient) {
      const Divider& by_channels = pass == Pass::forward ? args.by_in : args.by_out;
      const int k = k0 + a_chunk * E;
      const int tap = by_channels.quotient(k), c = by_channels.remainder(k, tap);
      int dy, dx, offset, width, height;
      if constexpr (pass == Pass::forward) {
        dy = args.by_kernel.quotient(tap);
        dx = args.by_kernel.remainder(tap, dy);
        offset = (dy * s.width + dx) * s.in + c;
        height = s.height, width = s.width;
      } else {
        const int row = tap / max(tap_columns, 1);
        dy = -row;
        dx = -(tap - row * tap_columns);
        offset = (dy * s.out_width + dx) * s.out + c;
        height = s.out_height, width = s.out_width;
      }
      const bool k_valid = k < terms;
#pragma unroll
      for (int i = 0; i < a_loads; ++i) {
        const int y = (a_yx[i] >> 16) - 0x4000 + dy, x = (a_yx[i] & 0xFFFF) - 0x4000 + dx;
        const bool valid = k_valid && static_cast<unsigned>(y) < static_cast<unsigned>(height) &&
                           static_cast<unsigned>(x) < static_cast<unsigned>(width);
        const int row = a_row + i * a_rows_per_pass;
        copy_async(a_tile + place_chunk<K::a_row_chunks>(row, a_chunk) * 16,
                   a_source + (valid ? a_base[i] + offset : 0), valid);
      }
    } else {
      const int m = m0 + a_chunk * E;
#pragma unroll
      for (int i = 0; i < a_loads; ++i) {
        const int row = a_row + i * a_rows_per_pass, k = k0 + row;
        const bool valid = k < terms && m < s.out;
        copy_async(a_tile + place_chunk<K::a_row_chunks>(row, a_chunk) * 16,
                   a_source + (valid ? int64_t{k} * s.out + m : 0), valid);
      }
    }
    // Input gradient, usual widths: all rows of a stage belong to one tap.
    const int stage_tap = args.by_out.quotient(k0), stage_out = args.by_out.remainder(k0, stage_tap);
    const int stage_tap_row = stage_tap / max(tap_columns, 1);
    const T* const stage_weights = weights +
                                   ((stage_out * kernel + r_first + stage_tap_row * r_step) * kernel + s_first +
                                    (stage_tap - stage_tap_row * tap_columns) * r_step) *
                                       s.in +
                                   n0 + b_chunk * E;
#pragma unroll
    for (int i = 0; i < b_loads; ++i) {
      const int row = b_row + i * b_rows_per_pass;
      bool valid;
      const T* from;
      if constexpr (pass == Pass::forward) {
        const int k = k0 + b_chunk * E;
        valid = n0 + row < columns && k < terms;
        from = weights + (valid ? (n0 + row) * terms + k : 0);
      } else if constexpr (pass == Pass::input_gradient) {
        const int k = k0 + row;
        valid = k < terms && b_column_valid;
        if (s.out % depth == 0) {
          from = valid ? stage_weights + row * taps * s.in : weights;
        } else {
          const int tap = args.by_out.quotient(k), out = args.by_out.remainder(k, tap);
          const int tap_row = tap / max(tap_columns, 1);
          const int r = r_first + tap_row * r_step, q = s_first + (tap - tap_row * tap_columns) * r_step;
          from = weights + (valid ? ((out * kernel + r) * kernel + q) * s.in + n0 + b_chunk * E : 0);
        }
      } else {
        const int k = k0 + row;
        const int image = args.by_pixels.quotient(k), pixel = args.by_pixels.remainder(k, image);
        const int oy = args.by_width.quotient(pixel), ox = args.by_width.remainder(pixel, oy);
        const int y = oy * s.stride - s.padding + w_r, x = ox * s.stride - s.padding + w_s;
        valid = k < terms && b_column_valid && static_cast<unsigned>(y) < static_cast<unsigned>(s.height) &&
                static_cast<unsigned>(x) < static_cast<unsigned>(s.width);
        from = x_source + (valid ? ((image * s.height + y) * s.width + x) * s.in + w_c : 0);
      }
      copy_async(b_tile + place_chunk<K::b_row_chunks>(row, b_chunk) * 16, from, valid);
    }
  };

  const int lane = tid % 32, warp = tid / 32;
  const int warp_m = (warp % warps_m) * (BM / warps_m), warp_n = (warp / warps_m) * (BN / warps_n);
  float sum[K::mi][K::ni][4] = {};
  const auto multiply_stage = [&](int stage) {
    const uint32_t a_tile = shared_base + stage * K::stage_bytes, b_tile = a_tile + K::a_chunks * 16;
    if constexpr (E == 8) {
#pragma unroll
      for (int kk = 0; kk < depth / 16; ++kk) {
        uint32_t a[K::mi][4];
#pragma unroll
        for (int i = 0; i < K::mi; ++i) {
          const int m = warp_m + i * 16;
          if constexpr (K::a_along)
            load_matrices(a[i], a_tile + place_chunk<K::a_row_chunks>(m + lane % 16, kk * 2 + lane / 16) * 16);
          else
            load_matrices_transposed(a[i], a_tile + place_chunk<K::a_row_chunks>(kk * 16 + (lane / 16) * 8 + lane % 8,
                                                                                 m / 8 + (lane / 8) % 2) *
                                                        16);
        }
#pragma unroll
        for (int j = 0; j < K::ni; j += 2) {
          uint32_t b[4];
          const int n = warp_n + j * 8;
          if constexpr (K::b_along)
            load_matrices(
                b, b_tile + place_chunk<K::b_row_chunks>(n + (lane / 16) * 8 + lane % 8, kk * 2 + (lane / 8) % 2) * 16);
          else
            load_matrices_transposed(
                b, b_tile +
                       place_chunk<K::b_row_chunks>(kk * 16 + ((lane / 8) % 2) * 8 + lane % 8, n / 8 + lane / 16) * 16);
#pragma unroll
          for (int i = 0; i < K::mi; ++i) {
            multiply_bf16(sum[i][j], a[i], b[0], b[1]);
            multiply_bf16(sum[i][j + 1], a[i], b[2], b[3]);
          }
        }
      }
    } else {
      const auto* const a_values = reinterpret_cast<const float*>(shared + stage * K::stage_bytes);
      const float* const b_values = a_values + K::a_chunks * 4;
      const auto at = [](auto along, auto row_chunks, const float* tile, int m, int k) {
        const int row = along ? m : k, column = along ? k : m;
        return tile[place_chunk<decltype(row_chunks)::value>(row, column / 4) * 4 + column % 4];
      };
      struct Yes {
        __device__ constexpr operator bool() const { return true; }
      };
      struct No {
        __device__ constexpr operator bool() const { return false; }
      };
      using AAlong = std::conditional_t<K::a_along, Yes, No>;
      using BAlong = std::conditional_t<K::b_along, Yes, No>;
      using AChunks = std::integral_constant<int, K::a_row_chunks>;
      using BChunks = std::integral_constant<int, K::b_row_chunks>;
      const int g = lane / 4, t = lane % 4;
#pragma unroll
      for (int kk = 0; kk < depth / 8; ++kk) {
        uint32_t b_big[K::ni][2], b_small[K::ni][2];
#pragma unroll
        for (int j = 0; j < K::ni; ++j)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const float value = at(BAlong{}, BChunks{}, b_values, warp_n + j * 8 + g, kk * 8 + t + h * 4);
            b_big[j][h] = to_tf32(value);
            if constexpr (exact) b_small[j][h] = to_tf32(value - __uint_as_float(b_big[j][h]));
          }
#pragma unroll
        for (int i = 0; i < K::mi; ++i) {
          uint32_t big[4], small[4];
#pragma unroll
          for (int h = 0; h < 4; ++h) {
            const float value =
                at(AAlong{}, AChunks{}, a_values, warp_m + i * 16 + g + (h % 2) * 8, kk * 8 + t + (h / 2) * 4);
            big[h] = to_tf32(value);
            if constexpr (exact) small[h] = to_tf32(value - __uint_as_float(big[h]));
          }
#pragma unroll
          for (int j = 0; j < K::ni; ++j) {
            if constexpr (exact) {
              // The tensor core rounds its sums towards zero: short ones, then added in float, keep the error small.
              float part[4] = {};
              multiply_tf32(part, small, b_big[j]);
              multiply_tf32(part, big, b_small[j]);
              multiply_tf32(part, big, b_big[j]);
#pragma unroll
              for (int h = 0; h < 4; ++h) sum[i][j][h] += part[h];
            } else {
              multiply_tf32(sum[i][j], big, b_big[j]);
            }
          }
        }
      }
    }
  };

  const int tiles = (terms + depth - 1) / depth;
#pragma unroll
  for (int i = 0; i < stages - 1; ++i) {
    if (i < tiles) load_stage(i, i * depth);
    commit();
  }
  for (int tile = 0; tile < tiles; ++tile) {
    wait<stages - 2>();
    __syncthreads();
    if (tile + stages - 1 < tiles) load_stage((tile + stages - 1) % stages, (tile + stages - 1) * depth);
    commit();
    multiply_stage(tile % stages);
  }
  wait<0>();
  __syncthreads();

  // The result goes through shared memory, so that memory sees whole rows.
  auto* const result = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < K::mi; ++i)
#pragma unroll
    for (int j = 0; j < K::ni; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = warp_m + i * 16 + lane / 4 + h * 8, column = warp_n + j * 8 + (lane % 4) * 2;
        *reinterpret_cast<float2*>(result + row * K::result_pitch + column) =
            make_float2(sum[i][j][h * 2], sum[i][j][h * 2 + 1]);
      }
  __syncthreads();
  if constexpr (K::of == Pass::weight_gradient) {
    const auto place = [&](int row, int column) {
      const int m = m0 + row, n = n0 + column;
      return m < rows && n < columns ? m * columns + n : -1;
    };
    if (args.gradient != nullptr)
      write_gradient<K>(args, slot, tid, result, place);
    else
      take_step<K>(args, slot, tid, result, place);
  } else {
    auto* const scratch = reinterpret_cast<double2*>(result + BM * K::result_pitch);
    if constexpr (pass == Pass::forward) {
      if (args.forward.sums.partial != nullptr) sum_squares<K>(args.forward, block, result, rows - m0, rows, scratch);
    }
    write_rows<K>(args, {slot, n0, columns}, block, result, scratch, [&](int row) {
      const int m = m0 + row;
      if (m >= rows) return -1;
      if constexpr (pass == Pass::forward) return m;
      const int image = args.by_pixels.quotient(m), pixel = args.by_pixels.remainder(m, image);
      const int gy = args.by_width.quotient(pixel), gx = args.by_width.remainder(pixel, gy);
      const int y = gy * s.stride + parity_y, x = gx * s.stride + parity_x;
      return y < s.height && x < s.width ? (image * s.height + y) * s.width + x : -1;
    });
  }
}

template <Pass pass, class T, bool exact, int BM, int BN, int warps_m, int warps_n, int stages = 3>
void launch_tile(const Arguments& args, int m_blocks, int n, cudaStream_t stream) {
  using K = Tile<pass, T, exact, BM, BN, warps_m, warps_n, stages>;
  const auto kernel = multiply<pass, T, exact, BM, BN, warps_m, warps_n, stages>;
  static const cudaError_t allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, K::shared_bytes);
  if (allowed != cudaSuccess) throw std::runtime_error(cudaGetErrorString(allowed));
  const dim3 grid(m_blocks, ceil_div(n, BN), args.shape.slots);
  kernel<<<grid, K::threads, K::shared_bytes, stream>>>(args);
  check_launch("convolution");
}

constexpr int largest_tile = 6, first_patch_tile = 7;

/// Tile shapes by number. bf16 has them all; the float precisions, which are for checking, the first four.
template <Pass pass, class T, bool exact>
void launch_numbered(const Arguments& args, int64_t rows, int parities, int n, int tile, cudaStream_t stream) {
  const auto blocks = [&](int size) { return parities * ceil_div(rows, size); };
  switch (tile) {
    case 0: return launch_tile<pass, T, exact, 128, 128, 2, 4>(args, blocks(128), n, stream);
    case 1: return launch_tile<pass, T, exact, 128, 64, 2, 2>(args, blocks(128), n, stream);
    case 2: return launch_tile<pass, T, exact, 64, 64, 2, 2>(args, blocks(64), n, stream);
    case 3: return launch_tile<pass, T, exact, 64, 32, 2, 1>(args, blocks(64), n, stream);
    default: break;
  }
  if constexpr (std::is_same_v<T, bf16> && pass != Pass::weight_gradient) {
    // Five or ten images of 4 x 4 pixels fill 80 rows, not 128.
    if (tile == 4) return launch_tile<pass, T, exact, 80, 128, 1, 4>(args, blocks(80), n, stream);
    if (tile == 5) return launch_tile<pass, T, exact, 80, 64, 1, 4>(args, blocks(80), n, stream);
    if (tile == largest_tile) return launch_tile<pass, T, exact, 160, 128, 2, 4>(args, blocks(160), n, stream);
  }
  if constexpr (std::is_same_v<T, bf16> && pass == Pass::weight_gradient) {
    // Short sums need fewer tiles in flight, and leave room for more blocks.
    if (tile == 4) return launch_tile<pass, T, exact, 128, 128, 2, 4, 2>(args, blocks(128), n, stream);
    if (tile == 5) return launch_tile<pass, T, exact, 128, 64, 2, 2, 2>(args, blocks(128), n, stream);
    if (tile == 6) return launch_tile<pass, T, exact, 64, 64, 2, 2, 2>(args, blocks(64), n, stream);
  }
  throw std::logic_error("no such tile");
}

template <Pass pass, class T, bool exact>
void launch(Arguments args, int tile, cudaStream_t stream) {
  const ConvolutionShape& s = args.shape;
  args.by_in = Divider(s.in);
  args.by_out = Divider(s.out);
  args.by_kernel = Divider(s.kernel);
  if constexpr (pass == Pass::input_gradient) {
    const int height = ceil_div(s.height, s.stride), width = ceil_div(s.width, s.stride);
    args.by_pixels = Divider(height * width);
    args.by_width = Divider(width);
    launch_numbered<pass, T, exact>(args, int64_t{s.batch} * height * width, s.stride * s.stride, s.in, tile, stream);
  } else {
    args.by_pixels = Divider(s.out_height * s.out_width);
    args.by_width = Divider(s.out_width);
    if constexpr (pass == Pass::forward)
      launch_numbered<pass, T, exact>(args, int64_t{s.batch} * s.out_height * s.out_width, 1, s.out, tile, stream);
    else
      launch_numbered<pass, T, exact>(args, s.out, 1, s.kernel * s.kernel * s.in, tile, stream);
  }
}

Arguments arguments(const ConvolutionShape& shape, const int32_t* counts, const void* a, const void* b) {
  Arguments args{};
  args.shape = shape;
  args.counts = counts;
  args.a = a;
  args.b = b;
  return args;
}

template <Pass pass>
void launch(Precision precision, const Arguments& args, int tile, cudaStream_t stream) {
  switch (precision) {
    case Precision::fp32: launch<pass, float, true>(args, tile, stream); break;
    case Precision::tf32: launch<pass, float, false>(args, tile, stream); break;
    case Precision::bf16:
      if (tile >= first_patch_tile)
        launch_patches(pass, args, tile - first_patch_tile, stream);
      else
        launch<pass, bf16, false>(args, tile, stream);
      break;
  }
}

}  // namespace

int64_t row_sums_room(int slots, int batch, int pixels, int channels) {
  return int64_t{slots} * channels * 4 * (ceil_div(int64_t{batch} * pixels, fewest_rows_per_block) + 16);
}

int tiles_of(Precision precision) { return precision == Precision::bf16 ? first_patch_tile + patch_tiles : 4; }

bool tile_fits(Precision precision, Pass pass, const ConvolutionShape& shape, int tile) {
  if (tile < 0 || tile >= tiles_of(precision)) return false;
  if (tile >= first_patch_tile) return patch_tile_fits(pass, shape, tile - first_patch_tile);
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  // Only the largest tile asks for more than the 99 KiB that every device has.
  using Largest = Tile<Pass::forward, bf16, false, 160, 128, 2, 4, 3>;
  return precision != Precision::bf16 || tile != largest_tile || Largest::shared_bytes <= most;
}

int usual_tile(Pass pass, const ConvolutionShape& shape) {
  const int width = pass == Pass::input_gradient ? shape.in : shape.out;
  if (pass == Pass::weight_gradient) return width >= 128 ? 0 : 2;
  return width >= 128 ? 0 : width > 32 ? 1 : 3;
}

void convolve(Precision precision, const ConvolutionShape& shape, const int32_t* counts, const void* input,
              const void* weight, int64_t weight_stride, void* output, const NormForward* norm, int tile,
              cudaStream_t stream) {
  Arguments args = arguments(shape, counts, input, weight);
  args.weight_stride = weight_stride;
  args.result = output;
  if (norm != nullptr) args.forward = *norm;
  launch<Pass::forward>(precision, args, tile, stream);
}

void convolve_input_gradient(Precision precision, const ConvolutionShape& shape, const int32_t* counts,
                             const void* output_gradient, const void* weight, int64_t weight_stride,
                             void* input_gradient, bool accumulate, const NormBackward* norm, int tile,
                             cudaStream_t stream) {
  Arguments args = arguments(shape, counts, output_gradient, weight);
  args.weight_stride = weight_stride;
  args.result = input_gradient;
  args.accumulate = accumulate;
  if (norm != nullptr) args.backward = *norm;
  launch<Pass::input_gradient>(precision, args, tile, stream);
}

void convolve_and_step(Precision precision, const ConvolutionShape& shape, const int32_t* counts, const void* input,
                       const void* output_gradient, const SlotTensor& tensor, const SgdRule& rule, int tile,
                       cudaStream_t stream) {
  Arguments args = arguments(shape, counts, output_gradient, input);
  args.tensor = tensor;
  args.rule = rule;
  launch<Pass::weight_gradient>(precision, args, tile, stream);
}

void convolve_weight_gradient(Precision precision, const ConvolutionShape& shape, const int32_t* counts,
                              const void* input, const void* output_gradient, float* gradient, int64_t stride, int tile,
                              cudaStream_t stream) {
  Arguments args = arguments(shape, counts, output_gradient, input);
  args.gradient = gradient;
  args.gradient_stride = stride;
  launch<Pass::weight_gradient>(precision, args, tile, stream);
}

}  // namespace fedgrab::cuda
