/// The device's half of local training, for many clients ("slots") at once. Activations are [slot][sample][row][column]
/// [channel]; every kernel looks at counts[slot], the samples in that slot's batch, and touches nothing beyond them, so
/// that partial batches are exact and an idle slot costs nothing. No kernel adds in an order of chance: the same input
/// gives the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace fedgrab::cuda {

/// fp32 multiplies three TF32 products (3xTF32), which keeps float's accuracy; tf32 one; bf16 reads 16-bit operands.
/// All add in float, and weights and momentum are float always.
enum class Precision { fp32, tf32, bf16 };

/// Channels of images are padded to this, so that every vector load is aligned.
constexpr int channel_padding = 8;

struct ConvolutionShape {
  int slots, batch;
  int height, width, in;
  int out_height, out_width, out;
  int kernel, stride, padding;
};

/// One parameter tensor of all slots, slot s at `stride · s`.
struct SlotTensor {
  float* weight;            // where training writes
  float* velocity;          // SGD's momentum
  void* copy;               // bf16 copy that convolutions read; null in the float precisions
  const float* start;       // the global model (not per slot); null: no proximal term
  const float* correction;  // added to the gradient; null: none
  int64_t stride;
};

struct SgdRule {
  const float* lr;  // on the device, since it changes from round to round
  float momentum, decay, proximal;
};

/// What the images of a step are made from.
struct BatchSource {
  const uint8_t* pixels;  // [image][channel][row][column]
  const int32_t* labels;
  const float* table;  // [channel][256], normalised
  int channels, height, width;
  int crop_padding;
  bool flip;
};

/// The clients of the slots, for one round.
struct RoundPlan {
  const int32_t* order;    // [slot][epoch][longest], images in the order of training
  const int32_t* samples;  // [slot]
  const int32_t* clients;  // [slot]
  const int32_t* step;     // the step all slots are at, on the device
  const uint32_t* round;
  uint64_t augment_key, gate_key;
  int slots, batch, epochs, longest;
};

/// Rows (sample, pixel) of a convolution's output whose sums are kept apart for the norm behind it.
constexpr int rows_per_sum = 128;
/// Room for those sums: float2 [slot][channel][this many].
#ifdef __CUDACC__
__host__ __device__
#endif
    inline int
    sums_per_channel(int batch, int pixels) {
  return (batch * pixels + rows_per_sum - 1) / rows_per_sum;
}

// Convolutions, T by precision. `weight` is what is read: the bf16 copy or the float weights.
/// `sums`: Σ y and Σ y² of each channel, where a norm wants them; else null.
void convolve(Precision precision, const ConvolutionShape& shape, const int32_t* counts, const void* input,
              const void* weight, int64_t weight_stride, void* output, float2* sums, cudaStream_t stream);
void convolve_input_gradient(Precision precision, const ConvolutionShape& shape, const int32_t* counts,
                             const void* output_gradient, const void* weight, int64_t weight_stride,
                             void* input_gradient, bool accumulate, cudaStream_t stream);
/// Computes the gradient of the weights and takes SGD's step with it while it is still on the chip.
void convolve_and_step(Precision precision, const ConvolutionShape& shape, const int32_t* counts, const void* input,
                       const void* output_gradient, const SlotTensor& tensor, const SgdRule& rule, cudaStream_t stream);
/// The gradient alone, into gradient[slot · stride + …].
void convolve_weight_gradient(Precision precision, const ConvolutionShape& shape, const int32_t* counts,
                              const void* input, const void* output_gradient, float* gradient, int64_t stride,
                              cudaStream_t stream);

/// BatchNorm, what is added to it (a residual) and the ReLU behind it, as one.
struct NormShape {
  int slots, batch, pixels, channels;
};
struct NormTensors {
  const float *weight, *bias;  // slot stride as given
  float *running_mean, *running_var;
  int64_t stride;
};
/// From the sums of the convolution before it: mean and 1/σ of each channel; moves the running statistics.
void norm_statistics(const NormShape& shape, const int32_t* counts, const float2* sums, const NormTensors& tensors,
                     float2* statistics, cudaStream_t stream);
void norm_running_statistics(const NormShape& shape, const NormTensors& tensors, float2* statistics,
                             cudaStream_t stream);
void norm_apply(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                const float2* statistics, const NormTensors& tensors, const void* residual, bool relu, void* output,
                cudaStream_t stream);
/// Chunks of rows that the backward pass sums apart; scratch is float2 [slot][channel][norm_chunks].
constexpr int norm_chunks = 32;
/// `output_gradient` is left multiplied by ReLU's mask: that is what the residual receives. gradient_weight and
/// gradient_bias have the slot stride `gradient_stride`.
void norm_backward(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                   const float2* statistics, const NormTensors& tensors, bool relu, const void* output,
                   void* output_gradient, float2* scratch, float2* sums, float* gradient_weight, float* gradient_bias,
                   int64_t gradient_stride, void* input_gradient, cudaStream_t stream);

/// `which` remembers the winner of each window.
void max_pool(Precision precision, const ConvolutionShape& shape, const int32_t* counts, const void* input,
              void* output, uint8_t* which, cudaStream_t stream);
void max_pool_backward(Precision precision, const ConvolutionShape& shape, const int32_t* counts,
                       const void* output_gradient, const uint8_t* which, void* input_gradient, cudaStream_t stream);
/// features [slot][sample][channel], float; zero beyond counts.
void global_average(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                    float* features, cudaStream_t stream);
void global_average_backward(Precision precision, const NormShape& shape, const int32_t* counts,
                             const float* feature_gradient, void* input_gradient, cudaStream_t stream);

/// SGD over `size` weights of every slot that has samples. `factor` scales the gradient of each slot; null: 1.
void sgd_step(const SlotTensor& tensor, int64_t size, const float* gradient, int64_t gradient_stride,
              const float* factor, const int32_t* counts, int slots, const SgdRule& rule, cudaStream_t stream);
/// factor[slot] brings the norm of `size` values down to `clip`. scratch: double [slot][64].
void clip_factors(const float* gradient, int64_t size, int64_t stride, int slots, float clip, double* scratch,
                  float* factor, cudaStream_t stream);
/// total[i] += values[i] · weight in fixed point, 40 bits behind the point (method/sums.h); *bad = 1 where it does not
/// fit.
void add_fixed(const float* values, int64_t size, double weight, int64_t* total, int32_t* bad, cudaStream_t stream);
void copy_to_bf16(const float* weights, void* copy, int64_t size, cudaStream_t stream);

// What a step starts from.
/// Sort keys of the epochs' permutations: keys[slot][epoch][longest]; positions beyond a client's samples sort last.
void shuffle_keys(const RoundPlan& plan, uint64_t shuffle_key, int64_t* keys, cudaStream_t stream);
/// Images, labels, mask and counts of the slots' current batches.
void gather_batch(Precision precision, const BatchSource& source, const RoundPlan& plan, void* images, int64_t* labels,
                  float* mask, int32_t* counts, cudaStream_t stream);
/// Images first … first + count without augmentation, for evaluation; of the list `indices` where it is not null.
void gather_plain(Precision precision, const BatchSource& source, const int32_t* indices, int64_t first, int count,
                  void* images, cudaStream_t stream);
/// Uniform numbers [slot][n] of the gate's stream at this step.
void gate_uniforms(const RoundPlan& plan, int n, float* numbers, cudaStream_t stream);
/// Adds the loss of the step, remembers the first step at which it was not finite, and moves on to the next.
void finish_step(const float* loss, const int32_t* counts, int slots, double* loss_sum, int32_t* first_bad,
                 int32_t* step, cudaStream_t stream);

}  // namespace fedgrab::cuda
