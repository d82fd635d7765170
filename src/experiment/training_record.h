/// What a round records of its training: sums over the clients, their diagnostics, the class prior.
#pragma once

#include <vector>

#include "fedgrab/experiment/federation_run.h"
#include "fedgrab/record/schema.h"

namespace fedgrab {

RoundRecord record_of_training(const FederationRun& run, const RoundContext& context,
                               const std::vector<ClientReport>& reports);

}  // namespace fedgrab
