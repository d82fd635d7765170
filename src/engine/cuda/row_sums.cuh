/// Two sums per channel over all rows of a slot, in one kernel: every block writes those of its rows, and the block
/// that comes last adds them up, always in the same order, whichever it is.
#pragma once

#include "device.cuh"

namespace fedgrab::cuda {

constexpr float norm_momentum = 0.1F;
constexpr float norm_epsilon = 1e-5F;

/// Smallest number of rows that a block sums: room is made for so many blocks.
constexpr int fewest_rows_per_block = 64;

/// Where a block stands among those that share its slot and channels.
struct BlockOfRows {
  int slot, channels;  // channels: of the whole tensor
  int first, width;    // channels of this block
  int index, blocks;   // of the blocks that have rows
  int ticket;          // which counter they share
};

/// Called by all threads of all blocks that have rows, after they wrote their sums to partial_at(). True in the last
/// block, which then finds everything there.
__device__ inline bool is_last_block(const RowSums& sums, const BlockOfRows& block) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t* const ticket = sums.tickets + block.slot * ticket_room + block.ticket;
    last = atomicAdd(ticket, 1) == block.blocks - 1;
    if (last) *ticket = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

__device__ inline float2* partial_at(const RowSums& sums, const BlockOfRows& block, int stride, int index) {
  return sums.partial + (int64_t{block.slot} * stride + index) * block.channels + block.first;
}

/// In the last block: calls take(channel, total) once per channel, by one thread each. A block has a multiple of
/// `width` threads. `scratch`: double2 in shared memory, one per thread.
template <class Take>
__device__ void add_up(const RowSums& sums, const BlockOfRows& block, int stride, double2* scratch, Take take) {
  const int parts = static_cast<int>(blockDim.x) / block.width;
  const int c = static_cast<int>(threadIdx.x) % block.width, part = static_cast<int>(threadIdx.x) / block.width;
  const bool there = block.first + c < block.channels;
  double2 total{0, 0};
  if (there) {
#pragma unroll 8
    for (int i = part; i < block.blocks; i += parts) {
      const float2 value = __ldcg(partial_at(sums, block, stride, i) + c);
      total.x += value.x;
      total.y += value.y;
    }
  }
  scratch[threadIdx.x] = total;
  __syncthreads();
  if (part != 0 || !there) return;
  for (int other = 1; other < parts; ++other) {
    total.x += scratch[other * block.width + c].x;
    total.y += scratch[other * block.width + c].y;
  }
  take(block.first + c, total);
}

/// Mean and 1/σ of a channel from Σ y and Σ y².
__device__ inline void finish_statistics(const NormForward& norm, int slot, int channels, int channel, int rows,
                                         double2 sums) {
  const NormTensors& t = norm.tensors;
  float& running_mean = t.running_mean[slot * t.stride + channel];
  float& running_var = t.running_var[slot * t.stride + channel];
  float2& statistics = norm.statistics[int64_t{slot} * channels + channel];
  if (rows == 1) {  // one value has no variance: the running statistics serve, and stay
    statistics = make_float2(running_mean, rsqrtf(running_var + norm_epsilon));
    return;
  }
  const double mean = sums.x / rows;
  const double variance = max(sums.y / rows - mean * mean, 0.0);
  running_mean = (1 - norm_momentum) * running_mean + norm_momentum * static_cast<float>(mean);
  running_var = (1 - norm_momentum) * running_var + norm_momentum * static_cast<float>(variance * rows / (rows - 1));
  statistics = make_float2(static_cast<float>(mean), static_cast<float>(1 / sqrt(variance + norm_epsilon)));
}

/// Gradients of weight and bias, and the means that the gradient of the input needs.
__device__ inline void finish_backward(const NormBackward& norm, int slot, int channels, int channel, int rows,
                                       double2 sums) {
  norm.gradient_bias[slot * norm.gradient_stride + channel] = static_cast<float>(sums.x);
  if (norm.input == nullptr) return;
  norm.gradient_weight[slot * norm.gradient_stride + channel] = static_cast<float>(sums.y);
  // Under the running statistics nothing flows through mean and variance.
  norm.means[int64_t{slot} * channels + channel] =
      rows == 1 ? make_float2(0, 0) : make_float2(static_cast<float>(sums.x / rows), static_cast<float>(sums.y / rows));
}

}  // namespace fedgrab::cuda
