#include "entries.h"

namespace fedgrab {

const std::vector<Choice<Aggregator>>& aggregators() {
  static const std::vector<Choice<Aggregator>> entries{
      {"average", "weighted average of the clients' models (FedAvg, McMahan 2017)",
       [](const Config&) { return std::make_unique<Aggregator>(); }},
      nova_entry(),
  };
  return entries;
}

const std::vector<Choice<ServerOptimizer>>& server_optimizers() {
  static const std::vector<Choice<ServerOptimizer>> entries{
      {"none", "the average becomes the global model",
       [](const Config&) { return std::unique_ptr<ServerOptimizer>(); }},
      momentum_entry(),
      adagrad_entry(),
      adam_entry(),
      yogi_entry(),
  };
  return entries;
}

}  // namespace fedgrab
