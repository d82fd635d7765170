/// One client's local training on one network: the plain path that every faster engine is measured against.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fedgrab/engine/engine.h"
#include "sgd.h"

namespace fedgrab {

class LocalTraining {
 public:
  explicit LocalTraining(const Federation& federation);

  /// Trains the client from view.global; afterwards network() holds its model.
  ClientReport run(const ClientView& view, const Method& method);
  Network& network() { return network_; }

 private:
  /// Features of the client's own images under the model it received.
  void observe(const ClientView& view, const Method& method);
  /// One step; returns the classifying head's loss.
  double step(const ClientView& view, const ClientRule& rule, std::span<const int64_t> samples, uint32_t position,
              uint32_t step_index, double lr);

  const Federation& federation_;
  Network network_;
  Sgd sgd_;
  torch::Tensor counts_;                          // sizes of the classes, of the client in training
  std::vector<std::unique_ptr<Network>> others_;  // models whose features a rule compares with
};

}  // namespace fedgrab
