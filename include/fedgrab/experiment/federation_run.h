/// What every run is made of before its first round: settings, parts, data, partition, model.
#pragma once

#include <memory>

#include "fedgrab/engine/engine.h"
#include "fedgrab/experiment/preparation.h"
#include "fedgrab/method/composition.h"

namespace fedgrab {

struct FederationRun {
  explicit FederationRun(const Config& config);
  FederationRun(const FederationRun&) = delete;  // `federation` refers to its neighbours
  FederationRun& operator=(const FederationRun&) = delete;

  RoundContext begin_round(int64_t round, const std::vector<int64_t>& clients, const State& global,
                           const TensorMap& server) const;

  Settings settings;
  Composition method;
  Preparation prepared;
  Partition partition;
  std::unique_ptr<Federation> federation;
  State initial;
};

/// The global model before the first round: initial values, what the parts make of them, and model.init.
State initial_model(const Settings& settings, Composition& method, ImageShape shape, int64_t classes);

}  // namespace fedgrab
