/// The smallest divisors of a network, wherever it is computed.
#pragma once

namespace fedgrab {

constexpr double batch_norm_epsilon = 1e-5;  // added to the variance
constexpr double cosine_epsilon = 1e-8;      // least length of a feature or weight vector
constexpr double smallest_spread = 1e-8;     // least deviation of logits

}  // namespace fedgrab
