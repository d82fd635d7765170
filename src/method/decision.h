/// How the model that is handed out decides between common and rare classes.
#pragma once

#include "fedgrab/model/state.h"

namespace fedgrab {

/// Takes τ log(P_j / max P) off what the classifying head says of class j, so that the model decides as if all classes
/// were equally common (Menon et al. 2021, after training). The logits are standardised first (Head::shift): features
/// grow longer as long as training goes on, and a shift would mean less and less; so τ is in units of a clear answer's
/// lead. Of two classes nothing would be left but which is larger: they are left as they are. `prior` may be norms of
/// rows.
State with_balanced_decision(const State& global, const torch::Tensor& prior, double tau);

}  // namespace fedgrab
