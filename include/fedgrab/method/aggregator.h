/// From client updates to the target of the round: the model that the server optimiser steps towards.
#pragma once

#include "fedgrab/core/registry.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

class Aggregator : public Part {
 public:
  /// The payload of the client's model.
  virtual Payload update(const ClientContext& client, const LocalResult& result) const;
  /// A new model; what is frozen or personal is the global model's.
  virtual State target(const RoundContext& round, const Sums& sums) const;
};

const std::vector<Choice<Aggregator>>& aggregators();

}  // namespace fedgrab
