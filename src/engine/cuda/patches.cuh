/// What convolutions by patches share: how pixels lie in shared memory, and the boxes in which they are copied. A patch
/// is 64 pixels, 64 channels at a time: 64 rows of 128 bytes. *Wide* images have sides that are multiples of 8, and a
/// patch is 8 x 8 pixels; *narrow* ones are 4 x 4. Under a stride of two, the pixels of one parity of row and column
/// are an image of their own, a *plane*: plane 2 py + px has those of row parity py and column parity px.
#pragma once

#include <dlfcn.h>

#include <algorithm>

#include "convolution_result.cuh"
#include "hopper.cuh"

namespace fedgrab::cuda {

constexpr int slice = 64;       // channels that lie together in a row of shared memory
constexpr int row_bytes = 128;  // of shared memory
constexpr int pattern = 1024;   // after so many bytes the permutation of chunks repeats

constexpr int aligned(int bytes) { return (bytes + pattern - 1) / pattern * pattern; }

__device__ inline unsigned char* align_shared(unsigned char* p) {
  return p + ((pattern - (shared_address(p) & (pattern - 1))) & (pattern - 1));
}

// Host.

using Encode = decltype(&cuTensorMapEncodeTiled);

/// From the driver itself, so that the program starts where there is none. Null: there is none.
inline Encode encoder() {
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
inline CUtensorMap pixel_map(const ConvolutionShape& s, const void* data, int channels, int height, int width,
                             int stride, int plane, Box box) {
  const auto number = [](int n) { return static_cast<uint64_t>(n); };
  const uint64_t c = number(channels), w = number(width), h = number(height), apart = number(stride);
  const auto* const begin = static_cast<const bf16*>(data) + (number(plane / 2) * w + number(plane % 2)) * c;
  return tensor_map<4>(
      begin, {c, w / apart, h / apart, number(s.slots) * number(s.batch)}, {c * apart, c * w * apart, c * w * h},
      {slice, static_cast<uint32_t>(box.width), static_cast<uint32_t>(box.height), static_cast<uint32_t>(box.images)});
}
inline CUtensorMap input_map(const ConvolutionShape& s, const void* data, int stride, int plane, Box box) {
  return pixel_map(s, data, s.in, s.height, s.width, stride, plane, box);
}
inline CUtensorMap output_map(const ConvolutionShape& s, const void* data, Box box) {
  return pixel_map(s, data, s.out, s.out_height, s.out_width, 1, 0, box);
}

inline CUtensorMap weight_map(const ConvolutionShape& s, const Arguments& args, int rows) {
  const auto length = static_cast<uint64_t>(s.kernel * s.kernel) * static_cast<uint64_t>(s.in);
  return tensor_map<3>(args.b, {length, static_cast<uint64_t>(s.out), static_cast<uint64_t>(s.slots)},
                       {length, static_cast<uint64_t>(args.weight_stride)}, {slice, static_cast<uint32_t>(rows), 1});
}

inline void allow_shared(const void* kernel, int bytes) {
  if (const auto status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      status != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(status));
}

inline bool is_narrow(const ConvolutionShape& s) { return s.out_width == 4; }

/// How many tiles of so many patches the pixels of a slot make.
inline int tiles_of_patches(const ConvolutionShape& s, int width, int patches) {
  return width == 8 ? ceil_div(int64_t{s.batch} * s.out_height * s.out_width / 64, patches)
                    : ceil_div(s.batch, 4 * patches);
}

/// Launches a kernel that needs so much shared memory.
template <auto kernel, class... Given>
void launch_kernel(const char* what, dim3 grid, int threads, int shared_bytes, cudaStream_t stream,
                   const Given&... given) {
  static const bool allowed = (allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes), true);
  static_cast<void>(allowed);
  kernel<<<grid, threads, shared_bytes, stream>>>(given...);
  check_launch(what);
}

}  // namespace fedgrab::cuda
