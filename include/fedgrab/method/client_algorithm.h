/// What a client does beside minimising its own loss: terms of the local gradient, and what it sends beside its model.
#pragma once

#include "fedgrab/core/registry.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

/// Its server_step() comes before the server optimiser and may move the target of the round.
class ClientAlgorithm : public Part {};

const std::vector<Choice<ClientAlgorithm>>& client_algorithms();

}  // namespace fedgrab
