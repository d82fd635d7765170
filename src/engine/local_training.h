/// One client's local training on one network: the reference implementation for faster engines.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fedgrab/data/batch_mixer.h"
#include "fedgrab/engine/engine.h"
#include "sgd.h"

namespace fedgrab {

class LocalTraining {
 public:
  explicit LocalTraining(const Federation& federation);

  /// Trains the client from the global model; afterwards network() holds its model.
  ClientReport run(const ClientContext& client, const Composition& method);
  Network& network() { return network_; }

 private:
  /// Features of the client's images under the model it received.
  LabelledFeatures features_of(int64_t client);
  /// Mixes the images where that is on, and adds the second labels to the batch.
  void mix(torch::Tensor& images, LogitBatch& batch, const Random& random) const;
  /// One step; returns the classifying head's loss.
  double step(const ClientContext& client, const LocalProblem& problem, std::span<const int64_t> samples,
              uint32_t position, uint32_t step_index, double lr);

  const Federation& federation_;
  Network network_;
  Sgd sgd_;
  BatchMixer mixer_;
  torch::Tensor counts_;                              // sizes of the classes, of the client in training
  std::vector<std::unique_ptr<Network>> references_;  // models whose features a loss compares with
};

}  // namespace fedgrab
