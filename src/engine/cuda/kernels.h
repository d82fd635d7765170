/// The device's half of local training, for many clients ("slots") at once. Activations are [slot][sample][row][column]
/// [channel]; every kernel looks at counts[slot], the samples in that slot's batch, and touches nothing beyond them, so
/// that partial batches are exact and an idle slot costs nothing. No kernel adds in an order of chance: the same input
/// gives the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fedgrab/data/augment.h"
#include "fedgrab/data/mix.h"
#include "fedgrab/engine/engine_params.h"

namespace fedgrab::cuda {

/// fp32 multiplies three TF32 products (3xTF32), which keeps float's accuracy; tf32 one; bf16 reads 16-bit operands.
/// All add in float, and weights and momentum are float always.

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
  const uint8_t* pixels;  // [image][channel][row][column], `margin` more rows and columns on every side
  /// 0: all images are there. Else only those of the current steps, in two halves of so many steps each:
  /// [half][step][slot][sample].
  int window;
  const int32_t* labels;
  const float* table;           // [channel][256], normalised
  int channels, height, width;  // what a model sees
  int margin;
  OperationList operations;  // of augmentation
  CropAndFlip leading;       // what the list begins with
  uint32_t view;             // of the samples: another one has other random numbers
  uint8_t* scratch;          // augmentation_scratch() bytes

  /// Operations behind crop and flip.
  bool augments() const { return leading.operations < operations.count; }
};

/// The clients of the slots, for one round.
struct RoundPlan {
  const int32_t* order;    // [slot][epoch][longest], images in the order of training
  const int32_t* samples;  // [slot]
  const int32_t* clients;  // [slot]
  const int32_t* step;     // the step all slots are at, on the device
  const uint32_t* round;
  uint64_t augment_key, gate_key, dropout_key, mix_key;
  int slots, batch, epochs, longest;
};

/// BatchNorm, what is added to it (a residual) and the ReLU behind it, as one.
struct NormShape {
  int slots, batch, pixels, channels;
};
struct NormTensors {
  const float *weight, *bias;  // slot stride as given; weight null: only the bias is added
  float *running_mean, *running_var;
  int64_t stride;
};

/// Sums over rows (sample, pixel) that blocks take apart and the last of them adds up: two numbers per channel.
struct RowSums {
  float2* partial;   // scratch for row_sums_room() pairs
  int32_t* tickets;  // room for ticket_room per slot; zero before and after
};
constexpr int ticket_room = 256;
int64_t row_sums_room(int slots, int batch, int pixels, int channels);

/// The statistics of the norm behind a convolution, taken while its result is on the chip: mean and 1/σ of each
/// channel; the running ones move along.
struct NormForward {
  RowSums sums;
  NormTensors tensors;
  float2* statistics;
};
/// The first half of the backward pass through a norm, taken while the gradient g of its output is on the chip: g is
/// masked by the ReLU (which is also what a residual receives), Σ g and Σ g x̂ are the gradients of bias and weight.
struct NormBackward {
  RowSums sums;
  const void* input;         // x; null: there is a bias and no norm, and so are means and gradient_weight
  const void* output;        // behind the ReLU; null: there is none
  const float2* statistics;  // x̂ = (x − mean) / σ
  float2* means;             // of g and g x̂, for norm_backward
  float *gradient_weight, *gradient_bias;
  int64_t gradient_stride;
};

/// The three products of a convolution. Each can be cut into tiles in several ways, known by number; which is fastest
/// depends on the shape and the device (tile_choice.h).
enum class Pass { forward, input_gradient, weight_gradient };
int tiles_of(Precision precision);
/// Whether the current device and this convolution suit it; the usual ones fit every device since 8.0.
bool tile_fits(Precision precision, Pass pass, const ConvolutionShape& shape, int tile);
/// A fair choice without measuring.
int usual_tile(Pass pass, const ConvolutionShape& shape);

// Convolutions, T by precision. `weight` is what is read: the bf16 copy or the float weights.
/// `norm`: of the norm behind it, in training; else null.
void convolve(Precision precision, const ConvolutionShape& shape, const int32_t* counts, const void* input,
              const void* weight, int64_t weight_stride, void* output, const NormForward* norm, int tile,
              cudaStream_t stream);
/// `norm`: of the norm that made the input, where this completes its output's gradient; else null.
void convolve_input_gradient(Precision precision, const ConvolutionShape& shape, const int32_t* counts,
                             const void* output_gradient, const void* weight, int64_t weight_stride,
                             void* input_gradient, bool accumulate, const NormBackward* norm, int tile,
                             cudaStream_t stream);
/// Computes the gradient of the weights and takes SGD's step with it while it is still on the chip.
void convolve_and_step(Precision precision, const ConvolutionShape& shape, const int32_t* counts, const void* input,
                       const void* output_gradient, const SlotTensor& tensor, const SgdRule& rule, int tile,
                       cudaStream_t stream);
/// The gradient alone, into gradient[slot · stride + …].
void convolve_weight_gradient(Precision precision, const ConvolutionShape& shape, const int32_t* counts,
                              const void* input, const void* output_gradient, float* gradient, int64_t stride, int tile,
                              cudaStream_t stream);

void norm_running_statistics(const NormShape& shape, const NormTensors& tensors, float2* statistics,
                             cudaStream_t stream);
void norm_apply(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                const float2* statistics, const NormTensors& tensors, const void* residual, bool relu, void* output,
                cudaStream_t stream);
/// What NormBackward says, where no convolution does it in passing.
void norm_backward_sums(Precision precision, const NormShape& shape, const int32_t* counts, void* output_gradient,
                        const NormBackward& norm, cudaStream_t stream);
/// The second half: the gradient of the norm's input.
void norm_backward(Precision precision, const NormShape& shape, const int32_t* counts, const void* input,
                   const float2* statistics, const NormTensors& tensors, const float2* means,
                   const void* output_gradient, void* input_gradient, cudaStream_t stream);

/// Multiplies by what dropout_factors() says for the layer (model/network.h); may work in place.
void dropout(Precision precision, const NormShape& shape, const int32_t* counts, const RoundPlan& plan, int layer,
             float rate, const void* input, void* output, cudaStream_t stream);
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

/// A linear head with its loss, and the balancer on it, forward and backward: what some sixty small kernels would do.
/// As softmax_loss, sigmoid_loss, control and balance do (objective/), which are its oracle.
struct HeadTask {
  int slots, batch, classes, features;
  const float* input;          // features [slot][sample][feature]
  float* input_gradient;       // null: the head is detached
  bool accumulate;             // adds to input_gradient
  const float *weight, *bias;  // slot stride weight_stride; bias may be null
  int64_t weight_stride;
  float scale;                             // multiplies the logits
  float *gradient_weight, *gradient_bias;  // null: frozen
  int64_t gradient_stride;
  const float* offset;          // [slot][class], added to the logits; null: none
  const int64_t* labels;        // [slot][sample]
  const int64_t* other_labels;  // where images are mixed; null: there is one label
  const float* share;           // [slot], of `labels` where there are two
  const int32_t* counts;
  float* loss;  // [slot]; null: nobody asks
  bool sigmoid;
  bool balanced;
  double kp, ki, kd, gamma, log_delta, zeta, target, clamp;
  bool hold;
  double *positive, *negative, *error, *error_sum, *output;  // [slot][class]
  const float* prior;                                        // [slot][class]; null: no class is exempt
  const float* uniforms;                                     // [slot][uniforms_stride]
  int uniforms_stride;
};
/// Whether a block's shared memory holds it.
bool head_fits(int batch, int classes);
void train_head(const HeadTask& task, cudaStream_t stream);

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
/// Mixes the images of each slot's batch in place, as mix_batch() does; writes the labels they are mixed with
/// [slot][sample] and the share [slot] of their own. `tables` are on the device.
void mix_images(Precision precision, const MixTables& tables, const RoundPlan& plan, const int32_t* counts, int height,
                int width, void* images, const int64_t* labels, int64_t* other_labels, float* share,
                cudaStream_t stream);
/// Shared memory that gather_batch takes, in bytes; a device has 48 KiB at least.
size_t gather_memory(const BatchSource& source);
/// Device memory that takes, in bytes, where operations change images for which shared memory has no room.
size_t augmentation_scratch(const BatchSource& source);
/// Images first … first + count without augmentation, for evaluation; of the list `indices` where it is not null.
void gather_plain(Precision precision, const BatchSource& source, const int32_t* indices, int64_t first, int count,
                  void* images, cudaStream_t stream);
/// Uniform numbers [slot][n] of the gate's stream at this step.
void gate_uniforms(const RoundPlan& plan, int n, float* numbers, cudaStream_t stream);
/// Adds the loss of the step, remembers the first step at which it was not finite, and moves on to the next.
void finish_step(const float* loss, const int32_t* counts, int slots, double* loss_sum, int32_t* first_bad,
                 int32_t* step, cudaStream_t stream);

}  // namespace fedgrab::cuda
