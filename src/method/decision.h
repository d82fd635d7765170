/// How the model that is handed out decides between common and rare classes.
#pragma once

#include "fedgrab/model/state.h"

namespace fedgrab {

/// Raises what the classifying head says of class j by shift · (1 − P_j / max P) / max(1 − min P / max P, ½), so that
/// the model decides as if all classes were equally common (logit adjustment after training, Menon et al. 2021, with
/// norms in place of counts). The logits are standardised first (Head::shift): features grow longer as long as training
/// goes on, and a shift would mean less and less. So the rarest class gains `shift` leads of a clear answer, however
/// far apart a network keeps the norms it is told by; where they differ by less than a factor of two it gains less, and
/// nothing where they are equal. Linear in the norms: among the short rows of rare classes a logarithm would make much
/// of what is chance (results/fedgrab.md). Of two classes nothing would be left but which is larger: they are left as
/// they are.
State with_balanced_decision(const State& global, const torch::Tensor& prior, double shift);

}  // namespace fedgrab
