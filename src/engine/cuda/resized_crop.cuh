/// torchvision's RandomResizedCrop on the device: place() and Resampler of the CPU, by one block for one image.
/// Products and sums that the CPU rounds one by one are kept apart, so that the same bytes come out.
#pragma once

#include "device.cuh"

namespace fedgrab::cuda {

/// Of an image in memory, the margin included.
struct Stored {
  int height, width;
  __host__ __device__ explicit Stored(const BatchSource& source)
      : height(source.height + 2 * source.margin), width(source.width + 2 * source.margin) {}
  __host__ __device__ int64_t plane() const { return int64_t{height} * width; }
};

/// A part of a stored image.
struct Crop {
  int top, left, height, width;
  bool flip;
};

__device__ inline Crop place_resized_crop(const Stored& stored, uint4 words) {
  constexpr double least_area = 0.08;
  const double widest = log(4.0 / 3.0);
  const auto area = static_cast<double>(stored.plane());
  const bool flip = (words.w & 1U) != 0;
  for (uint64_t attempt = 0; attempt < 10; ++attempt) {
    const uint4 draw = attempt == 0 ? words : philox(words, attempt);
    const double part = area * (least_area + (1 - least_area) * to_unit(draw.x));
    const double aspect = exp(widest * (2.0 * to_unit(draw.y) - 1));
    const auto w = static_cast<int>(lrint(sqrt(part * aspect)));
    const auto h = static_cast<int>(lrint(sqrt(part / aspect)));
    if (w < 1 || h < 1 || w > stored.width || h > stored.height) continue;
    return {static_cast<int>((draw.z >> 16) * (stored.height - h + 1) >> 16),
            static_cast<int>((draw.z & 0xFFFFU) * (stored.width - w + 1) >> 16), h, w, flip};
  }
  return {0, 0, stored.height, stored.width, flip};
}

/// Source pixels behind one target pixel, at most.
__host__ __device__ inline int filter_taps(int source, int target) {
  const double support = fmax(1.0, static_cast<double>(source) / target);
  return min(source, static_cast<int>(ceil(2 * support)) + 1);
}

/// Each of `target` pixels is a weighted sum of `taps` neighbours out of `source`; in shared memory.
struct Filter {
  int taps, source, target;
  int32_t* first;
  float* weights;

  __device__ Filter(int source_size, int target_size, uint8_t* memory)
      : taps(filter_taps(source_size, target_size)),
        source(source_size),
        target(target_size),
        first(reinterpret_cast<int32_t*>(memory)),
        weights(reinterpret_cast<float*>(first + target)) {}
  static size_t bytes(int source, int target) {
    return static_cast<size_t>(target) * (sizeof(int32_t) + filter_taps(source, target) * sizeof(float));
  }

  /// By the whole block.
  __device__ void fill() const {
    const double scale = static_cast<double>(source) / target;
    const double support = fmax(1.0, scale);
    for (int i = threadIdx.x; i < target; i += blockDim.x) {
      const double centre = __dmul_rn(i + 0.5, scale);
      const int start = min(max(static_cast<int>(floor(centre - support + 0.5)), 0), source - taps);
      const auto triangle = [&](int k) { return fmax(0.0, 1.0 - fabs(start + k + 0.5 - centre) / support); };
      double sum = 0;
      for (int k = 0; k < taps; ++k) sum += triangle(k);
      first[i] = start;
      for (int k = 0; k < taps; ++k) weights[i * taps + k] = static_cast<float>(triangle(k) / sum);
    }
  }
};

/// Shared memory for the filters of any crop.
inline size_t filter_bytes(const BatchSource& source) {
  const Stored stored(source);
  return Filter::bytes(stored.height, source.height) + Filter::bytes(stored.width, source.width);
}

/// By the whole block, with filter_bytes() of shared memory. put(pixel, byte_of) takes byte_of(channel).
template <class Put>
__device__ void read_resized_crop(const BatchSource& source, int64_t image, uint4 words, uint8_t* memory,
                                  const Put& put) {
  const Stored stored(source);
  const Crop crop = place_resized_crop(stored, words);
  const Filter down(crop.height, source.height, memory);
  const Filter across(crop.width, source.width, reinterpret_cast<uint8_t*>(down.weights + down.taps * source.height));
  down.fill();
  across.fill();
  __syncthreads();
  const uint8_t* const corner =
      source.pixels + image * source.channels * stored.plane() + int64_t{crop.top} * stored.width + crop.left;
  for (int pixel = threadIdx.x; pixel < source.height * source.width; pixel += blockDim.x) {
    const int y = pixel / source.width;
    const int x = source.leading.flip && crop.flip ? source.width - 1 - pixel % source.width : pixel % source.width;
    put(pixel, [&](int c) {
      const uint8_t* const from = corner + c * stored.plane() + int64_t{down.first[y]} * stored.width + across.first[x];
      float sum = 0.5F;
      for (int column = 0; column < across.taps; ++column) {
        float below = 0;
        for (int row = 0; row < down.taps; ++row)
          below = __fadd_rn(below, __fmul_rn(down.weights[y * down.taps + row],
                                             static_cast<float>(from[int64_t{row} * stored.width + column])));
        sum = __fadd_rn(sum, __fmul_rn(across.weights[x * across.taps + column], below));
      }
      return static_cast<uint8_t>(fminf(fmaxf(sum, 0.0F), 255.0F));
    });
  }
}

}  // namespace fedgrab::cuda
