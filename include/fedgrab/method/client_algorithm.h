/// Changes of local training: terms of the local gradient, and payloads in addition to the model.
#pragma once

#include "fedgrab/core/registry.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

/// Its server_step() runs before the server optimiser and may change the target of the round.
class ClientAlgorithm : public Part {};

const std::vector<Choice<ClientAlgorithm>>& client_algorithms();

}  // namespace fedgrab
