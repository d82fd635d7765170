#include "entries.h"

namespace fedgrab {

const std::vector<Choice<ClientAlgorithm>>& client_algorithms() {
  static const std::vector<Choice<ClientAlgorithm>> entries{
      {"sgd", "SGD on the local loss", [](const Config&) { return std::make_unique<ClientAlgorithm>(); }},
      prox_entry(),
      scaffold_entry(),
      dyn_entry(),
      moon_entry(),
  };
  return entries;
}

}  // namespace fedgrab
