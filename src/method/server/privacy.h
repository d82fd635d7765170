/// Differential privacy of clients: what a client sends is clipped, and the server adds Gaussian noise to the mean.
#pragma once

#include "fedgrab/method/server_params.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

/// w + clip(w_k − w), the norm taken over everything that is averaged, BatchNorm's statistics and auxiliary heads
/// included; what is not averaged is the global model's. On the device of `sent`.
torch::Tensor clipped_update(const torch::Tensor& sent, const State& global, double clip);

/// Adds noise of the deviation noise · clip / clients of the round to everything that is averaged. BatchNorm's
/// variances are then kept from becoming too small to divide by, which reveals nothing more. The noise is a function of
/// the seed: whoever knows the seed can subtract it.
void add_noise(const RoundContext& round, const ServerParams& params, State& target);

}  // namespace fedgrab
