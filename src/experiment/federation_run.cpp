#include "fedgrab/experiment/federation_run.h"

#include "fedgrab/core/error.h"
#include "fedgrab/experiment/checkpoint.h"

namespace fedgrab {

State initial_model(const Settings& settings, Composition& method, ImageShape shape, int64_t classes) {
  auto state = initial_state(method.model(make_architecture(settings.model.name, shape), classes), settings.seed());
  method.initialise(state, settings.seed());
  if (!settings.model.init.empty()) initialise_from_file(state, settings.model.init);
  return state;
}

FederationRun::FederationRun(const Config& config)
    : settings(read_settings(config)), method(config), prepared(prepare(settings)) {
  partition = partition_samples(settings, prepared);
  initial = initial_model(settings, method, prepared.data.shape(), prepared.data.classes());
  if (method.needs().global_counts) method.learn_counts(prepared.counts);
  federation = std::make_unique<Federation>(Federation{prepared.data, partition, initial.model, settings.train});
}

RoundContext FederationRun::begin_round(int64_t round, const std::vector<int64_t>& clients, const State& global,
                                        const TensorMap& server) const {
  std::vector<int64_t> sizes;
  sizes.reserve(clients.size());
  for (const int64_t client : clients)
    sizes.push_back(static_cast<int64_t>(partition[static_cast<size_t>(client)].size()));
  return method.begin_round(round, settings.seed(), clients, std::move(sizes), static_cast<int64_t>(partition.size()),
                            global, server);
}

}  // namespace fedgrab
