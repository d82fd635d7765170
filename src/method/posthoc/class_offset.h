/// A post-hoc classifier that adds a number to the logit of every class. For a linear head it becomes part of the bias;
/// a cosine or projected head carries it in the model card.
#pragma once

#include "fedgrab/method/posthoc.h"

namespace fedgrab {

/// `model` with `offset` added to its logits.
State with_offset(const State& model, const torch::Tensor& offset);

/// Where a fitted offset is kept in the server's state.
inline const std::string fitted_offset = "posthoc.offset";

/// The fitted offset for the record.
PosthocNumbers offset_numbers(const TensorMap& server);

}  // namespace fedgrab
