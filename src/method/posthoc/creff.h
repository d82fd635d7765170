/// CReFF (Shang et al. 2022): the server re-trains the classifier on "federated features", made so that their gradients
/// match those of the clients' real features, class by class.
#pragma once

#include <torch/torch.h>

#include "fedgrab/core/random.h"

namespace fedgrab {

/// A linear classifier.
struct Classifier {
  torch::Tensor weight, bias;  // [classes, features], [classes]
};

/// Gradient of the classifier's cross-entropy, mean over each class's features; the bias is the last column.
/// features [classes, n, features] → [classes, classes, features + 1].
torch::Tensor class_gradients(const Classifier& head, const torch::Tensor& features);
/// The same for samples with labels; classes without a sample have zeros.
torch::Tensor class_gradients(const Classifier& head, const torch::Tensor& features, const torch::Tensor& labels);

/// Σ over the classes that `present` marks of 1 − cosine, row by row and once for the bias.
torch::Tensor matching_loss(const torch::Tensor& real, const torch::Tensor& made, const torch::Tensor& present);

/// Moves the features down the matching loss; returns the loss before the first step (0 where there is none).
double match_features(torch::Tensor& features, const Classifier& head, const torch::Tensor& real,
                      const torch::Tensor& present, int64_t steps, double lr);

/// SGD on the features from `head`, which is changed.
void retrain(Classifier& head, const torch::Tensor& features, int64_t epochs, int64_t batch, double lr, uint64_t seed,
             uint32_t round);

}  // namespace fedgrab
