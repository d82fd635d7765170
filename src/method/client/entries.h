/// The client algorithms' entries, one function each for the registry.
#pragma once

#include "fedgrab/method/client_algorithm.h"

namespace fedgrab {

Choice<ClientAlgorithm> prox_entry();
Choice<ClientAlgorithm> scaffold_entry();
Choice<ClientAlgorithm> dyn_entry();
Choice<ClientAlgorithm> moon_entry();

}  // namespace fedgrab
