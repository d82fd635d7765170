/// A head, its loss and the balancer in one kernel, a block per slot.
#include "device.cuh"

namespace fedgrab::cuda {
namespace {

constexpr int threads = 512;
constexpr int warps = threads / 32;
constexpr int most_shared = 96 * 1024;
constexpr int samples_at_once = 8;

int shared_bytes(int batch, int classes) { return (batch * classes + batch) * 4; }

__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  return value;
}
__device__ float warp_max(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, offset));
  return value;
}

/// logits[sample][class], a warp per class.
__device__ void compute_logits(const HeadTask& t, int slot, int count, float* logits) {
  const int lane = threadIdx.x % 32;
  const float* const input = t.input + int64_t{slot} * t.batch * t.features;
  for (int c = threadIdx.x / 32; c < t.classes; c += warps) {
    const float* const weight = t.weight + slot * t.weight_stride + int64_t{c} * t.features;
    const float bias = t.bias == nullptr ? 0 : t.bias[slot * t.weight_stride + c];
    const float offset = t.offset == nullptr ? 0 : t.offset[slot * t.classes + c];
    for (int first = 0; first < count; first += samples_at_once) {
      float sum[samples_at_once] = {};
      for (int f = lane; f < t.features; f += 32) {
        const float w = weight[f];
#pragma unroll
        for (int i = 0; i < samples_at_once; ++i)
          if (first + i < count) sum[i] += w * input[(first + i) * t.features + f];
      }
#pragma unroll
      for (int i = 0; i < samples_at_once; ++i) {
        const float total = warp_sum(sum[i]);
        if (lane == 0 && first + i < count) logits[(first + i) * t.classes + c] = (total + bias) * t.scale + offset;
      }
    }
  }
}

/// What the probability of each class should be.
struct Target {
  int label, other = -1;  // −1: there is one label
  float own = 1;          // share of the first

  __device__ Target(const HeadTask& t, int slot, int sample)
      : label(static_cast<int>(t.labels[slot * t.batch + sample])) {
    if (t.other_labels == nullptr) return;
    other = static_cast<int>(t.other_labels[slot * t.batch + sample]);
    own = t.share[slot];
  }
  __device__ float operator[](int c) const { return (c == label ? own : 0) + (c == other ? 1 - own : 0); }
};

/// Turns a sample's logits into the gradient of the mean loss; returns the sample's loss. By one warp.
__device__ float differentiate(const HeadTask& t, float* z, const Target& targets, float share) {
  const int lane = threadIdx.x % 32;
  float loss = 0;
  if (t.sigmoid) {
    for (int c = lane; c < t.classes; c += 32) {
      const float target = targets[c];
      loss += fmaxf(z[c], 0) - z[c] * target + log1pf(expf(-fabsf(z[c])));
      z[c] = (1 / (1 + expf(-z[c])) - target) * share;
    }
    return warp_sum(loss);
  }
  float largest = -INFINITY, sum = 0;
  for (int c = lane; c < t.classes; c += 32) largest = fmaxf(largest, z[c]);
  largest = warp_max(largest);
  for (int c = lane; c < t.classes; c += 32) sum += expf(z[c] - largest);
  const float log_sum = logf(warp_sum(sum));
  for (int c = lane; c < t.classes; c += 32) {
    const float log_probability = z[c] - largest - log_sum;
    const float target = targets[c];
    if (target > 0) loss -= target * log_probability;
    z[c] = (expf(log_probability) - target) * share;
  }
  return warp_sum(loss);
}

/// One step of a class's controller, then the balanced gradient and what is collected of it. By one thread.
__device__ void balance(const HeadTask& t, int slot, int count, int c, float* gradient) {
  const int64_t at = int64_t{slot} * t.classes + c;
  const bool exempt = t.prior != nullptr && 1 - t.uniforms[slot * t.uniforms_stride + c] <= t.prior[at];
  if (exempt && t.hold) return;
  const double error = t.target - (t.positive[at] - t.negative[at]);
  const double sum = t.error_sum[at] + error;
  double output = t.kp * error + t.ki * sum + t.kd * (error - t.error[at]);
  t.error[at] = error;
  // Integration stops while the output is clamped, so that the controller answers at once when the error turns.
  const double bounded = t.clamp > 0 ? fmin(fmax(output, -t.clamp), t.clamp) : output;
  if (bounded == output) t.error_sum[at] = sum;
  t.output[at] = bounded;
  if (exempt) return;
  const auto phi = [&](double x) { return static_cast<float>(t.gamma / (1 + exp(-(t.zeta * x - t.log_delta)))); };
  const float positive = phi(bounded), negative = phi(-bounded);
  float below = 0, above = 0;
  for (int i = 0; i < count; ++i) {
    float& g = gradient[i * t.classes + c];
    g *= g < 0 ? positive : negative;
    below += fminf(g, 0);
    above += fmaxf(g, 0);
  }
  t.positive[at] -= below;
  t.negative[at] += above;
}

/// Gradients of features, weight and bias; a thread per feature.
__device__ void spread(const HeadTask& t, int slot, int count, const float* gradient) {
  const float* const input = t.input + int64_t{slot} * t.batch * t.features;
  const float* const weight = t.weight + slot * t.weight_stride;
  for (int f = threadIdx.x; f < t.features; f += threads) {
    for (int first = 0; first < count; first += samples_at_once) {
      float sum[samples_at_once] = {}, value[samples_at_once] = {};
#pragma unroll
      for (int i = 0; i < samples_at_once; ++i)
        if (first + i < count) value[i] = input[(first + i) * t.features + f];
      for (int c = 0; c < t.classes; ++c) {
        const float w = t.input_gradient == nullptr ? 0 : weight[int64_t{c} * t.features + f];
        float dw = 0;
#pragma unroll
        for (int i = 0; i < samples_at_once; ++i) {
          if (first + i >= count) continue;
          const float g = gradient[(first + i) * t.classes + c];
          sum[i] += g * w;
          dw += g * value[i];
        }
        if (t.gradient_weight != nullptr) {
          float& to = t.gradient_weight[slot * t.gradient_stride + int64_t{c} * t.features + f];
          to = dw * t.scale + (first > 0 ? to : 0);
        }
      }
      if (t.input_gradient == nullptr) continue;
      float* const out = t.input_gradient + int64_t{slot} * t.batch * t.features + f;
      for (int i = 0; i < samples_at_once && first + i < count; ++i) {
        float& to = out[(first + i) * t.features];
        to = sum[i] * t.scale + (t.accumulate ? to : 0);
      }
    }
  }
  if (t.gradient_bias != nullptr)
    for (int c = threadIdx.x; c < t.classes; c += threads) {
      float sum = 0;
      for (int i = 0; i < count; ++i) sum += gradient[i * t.classes + c];
      t.gradient_bias[slot * t.gradient_stride + c] = sum * t.scale;
    }
}

__global__ void __launch_bounds__(threads) train(const HeadTask t) {
  extern __shared__ float shared[];
  float* const gradient = shared;  // first the logits
  float* const losses = shared + t.batch * t.classes;
  const int slot = blockIdx.x, count = t.counts[slot];
  if (count == 0) {
    if (threadIdx.x == 0 && t.loss != nullptr) t.loss[slot] = 0;
    return;
  }
  compute_logits(t, slot, count, gradient);
  __syncthreads();
  const float share = 1.0F / static_cast<float>(count);
  for (int i = threadIdx.x / 32; i < count; i += warps) {
    const float loss = differentiate(t, gradient + i * t.classes, Target(t, slot, i), share);
    if (threadIdx.x % 32 == 0) losses[i] = loss;
  }
  __syncthreads();
  if (threadIdx.x == 0 && t.loss != nullptr) {
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += losses[i] * share;
    t.loss[slot] = sum;
  }
  if (t.balanced) {
    for (int c = threadIdx.x; c < t.classes; c += threads) balance(t, slot, count, c, gradient);
    __syncthreads();
  }
  spread(t, slot, count, gradient);
}

}  // namespace

bool head_fits(int batch, int classes) { return shared_bytes(batch, classes) <= most_shared; }

void train_head(const HeadTask& task, cudaStream_t stream) {
  static const cudaError_t allowed =
      cudaFuncSetAttribute(train, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared);
  if (allowed != cudaSuccess) throw std::runtime_error(cudaGetErrorString(allowed));
  train<<<task.slots, threads, shared_bytes(task.batch, task.classes), stream>>>(task);
  check_launch("train_head");
}

}  // namespace fedgrab::cuda
