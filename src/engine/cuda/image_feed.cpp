#include "image_feed.h"

#include <c10/cuda/CUDAException.h>

#include <cstring>

namespace fedgrab::cuda {

ImageFeed::ImageFeed(const Images& images, int64_t capacity)
    : images_(images),
      capacity_(capacity),
      bytes_(images.stored().size()),
      pinned_(torch::empty({2 * capacity * bytes_}, torch::dtype(torch::kByte).pinned_memory(true))),
      device_(torch::empty({2 * capacity * bytes_}, torch::dtype(torch::kByte).device(torch::kCUDA))),
      copies_(c10::cuda::getStreamFromPool()) {
  // The memory may be what the current stream has just given back, and is still using.
  at::cuda::CUDAEvent given;
  given.record(c10::cuda::getCurrentCUDAStream());
  given.block(copies_);
}

ImageFeed::~ImageFeed() { cudaStreamSynchronize(copies_.stream()); }

void ImageFeed::fill(size_t half, std::span<const int64_t> indices) {
  TORCH_CHECK(static_cast<int64_t>(indices.size()) <= capacity_);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  read_[half].synchronize();
  const int64_t first = static_cast<int64_t>(half) * capacity_ * bytes_;
  auto* to = pinned_.data_ptr<uint8_t>() + first;
  for (const int64_t index : indices) {
    if (index >= 0) std::memcpy(to, images_.bytes.data() + index * bytes_, static_cast<size_t>(bytes_));
    to += bytes_;
  }
  C10_CUDA_CHECK(cudaMemcpyAsync(device_.data_ptr<uint8_t>() + first, pinned_.data_ptr<uint8_t>() + first,
                                 indices.size() * static_cast<size_t>(bytes_), cudaMemcpyHostToDevice, copies_));
  at::cuda::CUDAEvent there;
  there.record(copies_);
  there.block(stream);
}

void ImageFeed::read(size_t half) { read_[half].record(c10::cuda::getCurrentCUDAStream()); }

}  // namespace fedgrab::cuda
