/// How the model that is handed out decides between common and rare classes.
#pragma once

#include "fedgrab/model/state.h"

namespace fedgrab {

/// Raises what the classifying head says of class j by shift · log(max P / P_j) / max(log(max P / min P), log 2), so
/// that the model decides as if all classes were equally common (Menon et al. 2021, after training). The logits are
/// standardised first (Head::shift): features grow longer as long as training goes on, and a shift would mean less and
/// less. So the rarest class gains `shift` leads of a clear answer, however far apart a network keeps the norms it is
/// told by; where they differ by less than a factor of two it gains less, and nothing where they are equal. Of two
/// classes nothing would be left but which is larger: they are left as they are.
State with_balanced_decision(const State& global, const torch::Tensor& prior, double shift);

}  // namespace fedgrab
