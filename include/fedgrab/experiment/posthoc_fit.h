/// Fits the classifier of the deployed model to images of a run.
#pragma once

#include "fedgrab/engine/engine.h"
#include "fedgrab/experiment/preparation.h"

namespace fedgrab {

/// Throws a usage Error if the parts need a validation split and there is none.
void require_fit_images(const Composition& method, const Preparation& prepared);

/// Fits what the post-hoc classifier and the temperature need; changes the server's state.
void fit_posthoc(Engine& engine, const Composition& method, const Preparation& prepared, const State& global,
                 TensorMap& server);

/// What was deployed, for the record.
PosthocRecord posthoc_record(const std::string& kind, const Composition& method, const Preparation& prepared,
                             const TensorMap& server);

}  // namespace fedgrab
