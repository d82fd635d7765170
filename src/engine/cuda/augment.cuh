/// The image operations of fedgrab/data/augment on the device: one block for one image.
#pragma once

#include "device.cuh"
#include "fedgrab/data/augment/operations.h"
#include "resized_crop.cuh"

namespace fedgrab::cuda {

/// The team of threads that an operation is written for, see canvas.h.
struct Block {
  template <class F>
  __device__ void each(int32_t n, F&& f) const {
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += static_cast<int32_t>(blockDim.x)) f(i);
    __syncthreads();
  }
  template <class F>
  __device__ uint32_t sum(int32_t n, F&& f, uint32_t& cell) const {
    uint32_t own = 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += static_cast<int32_t>(blockDim.x)) own += f(i);
    if (threadIdx.x == 0) cell = 0;
    __syncthreads();
    atomicAdd(&cell, own);
    __syncthreads();
    const uint32_t total = cell;
    __syncthreads();  // before somebody writes there again
    return total;
  }
  __device__ void count(uint32_t& bin) const { atomicAdd(&bin, 1U); }
};

/// Memory of one block: bins, the filters of a resized crop, and the image twice, unless that is in the scratch memory.
struct AugmentationMemory {
  size_t bins, filters, image;
  bool shared;  // the image as well

  explicit AugmentationMemory(const BatchSource& source)
      : bins(static_cast<size_t>(source.channels) * 256 * sizeof(uint32_t)),
        filters(source.leading.resized_crop ? filter_bytes(source) : 0),
        image(static_cast<size_t>(source.channels) * source.height * source.width),
        shared(bins + filters + 2 * image <= size_t{48} << 10) {}
  size_t shared_bytes() const { return bins + filters + (shared ? 2 * image : 0); }
};

}  // namespace fedgrab::cuda
