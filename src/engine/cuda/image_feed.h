/// Images that do not fit the device: two halves of a buffer, one being filled through pinned memory while kernels read
/// the other.
#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <array>
#include <span>

#include "fedgrab/data/dataset.h"

namespace fedgrab::cuda {

class ImageFeed {
 public:
  /// `capacity`: images per half. `images` outlives it.
  ImageFeed(const Images& images, int64_t capacity);
  ImageFeed(const ImageFeed&) = delete;
  ImageFeed& operator=(const ImageFeed&) = delete;
  ~ImageFeed();

  /// The first half on the device; the second follows at once.
  const uint8_t* pixels() const { return device_.data_ptr<uint8_t>(); }

  /// Brings these images into a half (0 or 1) when what last read it is done; a negative index leaves a gap. What is
  /// started on the current stream afterwards finds them there; what runs on it now goes on beside.
  void fill(size_t half, std::span<const int64_t> indices);
  /// Says that what was started on the current stream so far reads this half.
  void read(size_t half);

 private:
  const Images& images_;
  int64_t capacity_, bytes_;  // bytes of one image
  torch::Tensor pinned_, device_;
  c10::cuda::CUDAStream copies_;
  std::array<at::cuda::CUDAEvent, 2> read_;
};

}  // namespace fedgrab::cuda
