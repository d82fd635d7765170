/// What post-hoc classifiers fit to the logits of images. All of it needs no more than sums over images, so that a
/// federation can compute it with one exchange for each step.
#pragma once

#include <torch/torch.h>

namespace fedgrab {

/// n_y^−balance for every image, divided by their sum: at 1 each class weighs the same, at 0 each image. In double.
torch::Tensor class_balanced_weights(const torch::Tensor& labels, int64_t classes, double balance = 1);

/// b that minimises the weighted cross-entropy of z + b, plus ridge/2 ‖b‖²: convex, by Newton's method.
torch::Tensor fit_class_bias(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& weight,
                             double ridge);

/// τ ≥ 0 that minimises class-balanced cross-entropy of z − τ log π: convex.
double fit_tau(const torch::Tensor& logits, const torch::Tensor& labels, const torch::Tensor& log_prior);

/// T > 0 that minimises the cross-entropy of z / T with labels smoothed by 1/(n+1), n images weighing the same: one
/// minimum.
double fit_temperature(const torch::Tensor& logits, const torch::Tensor& labels);

/// log of the class-balanced mean softmax.
torch::Tensor log_mean_softmax(const torch::Tensor& logits, const torch::Tensor& labels);

}  // namespace fedgrab
