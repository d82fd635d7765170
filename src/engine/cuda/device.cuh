/// What the kernels share: 16-byte vectors of either precision, division by a constant, Philox.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels.h"

namespace fedgrab::cuda {

using bf16 = __nv_bfloat16;

/// Elements in 16 bytes.
template <class T>
constexpr int chunk = 16 / static_cast<int>(sizeof(T));

template <class T>
struct alignas(16) Vector {
  T values[chunk<T>];
};

template <class T>
__device__ inline float to_float(T value) {
  return static_cast<float>(value);
}
template <>
__device__ inline float to_float<bf16>(bf16 value) {
  return __bfloat162float(value);
}
template <class T>
__device__ inline T from_float(float value) {
  return static_cast<T>(value);
}
template <>
__device__ inline bf16 from_float<bf16>(float value) {
  return __float2bfloat16_rn(value);
}

/// Division of 0 ≤ n < 2³¹ by a divisor known before the launch (Granlund and Montgomery 1994).
struct Divider {
  uint32_t divisor = 1, multiplier = 0, shift = 0;

  Divider() = default;
  explicit Divider(int by) : divisor(static_cast<uint32_t>(by)) {
    if (divisor == 1) return;
    uint32_t log = 0;
    while ((uint64_t{1} << log) < divisor) ++log;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << (31 + log)) + divisor - 1) / divisor);
    shift = log - 1;
  }
  __device__ int quotient(int n) const {
    return divisor == 1 ? n : static_cast<int>(__umulhi(static_cast<uint32_t>(n), multiplier) >> shift);
  }
  __device__ int remainder(int n, int quotient) const { return n - quotient * static_cast<int>(divisor); }
};

/// Ten Philox rounds, as fedgrab::philox.
__device__ inline uint4 philox(uint4 counter, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53U, counter.x), low0 = 0xD2511F53U * counter.x;
    const uint32_t high1 = __umulhi(0xCD9E8D57U, counter.z), low1 = 0xCD9E8D57U * counter.z;
    counter = {high1 ^ counter.y ^ k0, low1, high0 ^ counter.w ^ k1, low0};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}
__device__ inline uint32_t word_of(uint4 block, int i) {
  return i == 0 ? block.x : i == 1 ? block.y : i == 2 ? block.z : block.w;
}

/// As fedgrab::to_unit.
__device__ inline float to_unit(uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24F; }

/// One value of SGD with all its terms; returns the new weight.
__device__ inline float sgd_update(float weight, float gradient, float& velocity, float lr, const SgdRule& rule,
                                   const float* start, const float* correction) {
  float total = gradient + rule.decay * weight;
  if (start != nullptr) total += rule.proximal * (weight - *start);
  if (correction != nullptr) total += *correction;
  velocity = rule.momentum * velocity + total;
  return weight - lr * velocity;
}

template <class F>
void by_precision(Precision precision, F&& launch) {
  if (precision == Precision::bf16)
    launch(bf16{});
  else
    launch(float{});
}

/// After each launch: an error would otherwise show somewhere else, or nowhere.
inline void check_launch(const char* what) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA, ") + what + ": " + cudaGetErrorString(error));
}

inline int ceil_div(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

}  // namespace fedgrab::cuda
