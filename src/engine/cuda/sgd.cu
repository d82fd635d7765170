/// SGD for what convolutions do not update themselves, and for all weights where the gradient's norm is clipped first.
#include "device.cuh"

namespace fedgrab::cuda {
namespace {

constexpr int threads = 256;
constexpr int norm_parts = 64;

__global__ void step(SlotTensor t, int64_t size, const float* gradient, int64_t gradient_stride, const float* factor,
                     const int32_t* counts, SgdRule rule) {
  const int slot = blockIdx.y;
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= size || counts[slot] == 0) return;
  const int64_t at = slot * t.stride + i;
  const float scale = factor == nullptr ? 1 : factor[slot];
  const float weight =
      sgd_update(t.weight[at], scale * gradient[slot * gradient_stride + i], t.velocity[at], *rule.lr, rule,
                 t.start == nullptr ? nullptr : t.start + i, t.correction == nullptr ? nullptr : t.correction + at);
  t.weight[at] = weight;
  if (t.copy != nullptr) static_cast<bf16*>(t.copy)[at] = __float2bfloat16_rn(weight);
}

/// Sum over the block in a fixed order; valid in thread 0.
__device__ double block_sum(double value) {
  __shared__ double parts[threads];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (int offset = threads / 2; offset > 0; offset /= 2) {
    if (static_cast<int>(threadIdx.x) < offset) parts[threadIdx.x] += parts[threadIdx.x + offset];
    __syncthreads();
  }
  return parts[0];
}

__global__ void square_sums(const float* gradient, int64_t size, int64_t stride, double* scratch) {
  double sum = 0;
  for (int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x; i < size; i += int64_t{norm_parts} * threads) {
    const double value = gradient[blockIdx.y * stride + i];
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) scratch[blockIdx.y * norm_parts + blockIdx.x] = sum;
}

__global__ void factors(const double* scratch, float clip, float* factor) {
  const double sum = block_sum(threadIdx.x < norm_parts ? scratch[blockIdx.x * norm_parts + threadIdx.x] : 0);
  const double norm = sqrt(sum);
  if (threadIdx.x == 0) factor[blockIdx.x] = norm > clip ? static_cast<float>(clip / norm) : 1;
}

__global__ void round_to_bf16(const float* weights, bf16* copy, int64_t size) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < size) copy[i] = __float2bfloat16_rn(weights[i]);
}

__global__ void fixed_add(const float* values, int64_t size, double weight, int64_t* total, int32_t* bad) {
  constexpr double scale = 0x1.0p40, limit = 0x1.0p22;
  constexpr auto fixed_limit = static_cast<long long>(limit * scale);
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= size) return;
  const double term = static_cast<double>(values[i]) * weight;
  const long long added = fabs(term) < limit ? __double2ll_rn(term * scale) : fixed_limit;  // NaN goes here too
  const long long sum = total[i] + added;
  if (llabs(added) < fixed_limit && llabs(sum) < fixed_limit)
    total[i] = sum;
  else
    *bad = 1;
}

}  // namespace

void sgd_step(const SlotTensor& tensor, int64_t size, const float* gradient, int64_t gradient_stride,
              const float* factor, const int32_t* counts, int slots, const SgdRule& rule, cudaStream_t stream) {
  if (size == 0) return;
  step<<<dim3(ceil_div(size, threads), slots), threads, 0, stream>>>(tensor, size, gradient, gradient_stride, factor,
                                                                     counts, rule);
  check_launch("step");
}

void clip_factors(const float* gradient, int64_t size, int64_t stride, int slots, float clip, double* scratch,
                  float* factor, cudaStream_t stream) {
  square_sums<<<dim3(norm_parts, slots), threads, 0, stream>>>(gradient, size, stride, scratch);
  check_launch("square_sums");
  factors<<<slots, threads, 0, stream>>>(scratch, clip, factor);
  check_launch("factors");
}

void add_fixed(const float* values, int64_t size, double weight, int64_t* total, int32_t* bad, cudaStream_t stream) {
  fixed_add<<<ceil_div(size, threads), threads, 0, stream>>>(values, size, weight, total, bad);
  check_launch("fixed_add");
}

void copy_to_bf16(const float* weights, void* copy, int64_t size, cudaStream_t stream) {
  round_to_bf16<<<ceil_div(size, threads), threads, 0, stream>>>(weights, static_cast<bf16*>(copy), size);
  check_launch("round_to_bf16");
}

}  // namespace fedgrab::cuda
