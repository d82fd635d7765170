/// Trains a cohort of clients for one round and evaluates a model. A Composition describes the method.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fedgrab/core/communicator.h"
#include "fedgrab/data/dataset.h"
#include "fedgrab/data/partition.h"
#include "fedgrab/engine/client_store.h"
#include "fedgrab/engine/engine_params.h"
#include "fedgrab/engine/train_params.h"
#include "fedgrab/method/composition.h"

namespace fedgrab {

/// The data of an engine; must outlive it.
struct Federation {
  const Dataset& data;
  const Partition& partition;
  std::shared_ptr<const Model> model;
  TrainParams train;
};

struct ClientReport {
  int64_t client = 0, steps = 0, samples = 0;
  double loss = 0;  // mean over its samples
  int64_t bytes_up = 0, bytes_down = 0;
  Diagnostics diagnostics;
  std::vector<double> accuracy;  // by class, after local training, if requested
};

struct RoundTask {
  const RoundContext& round;
  const Composition& method;
  const std::vector<int64_t>& clients;  // to train: the cohort, or a rank's part of it
  bool evaluate_clients = false;
};

constexpr int64_t evaluation_batch = 250;  // of the CPU, and the unit in which ranks divide an evaluation

struct Predictions {
  std::vector<int32_t> classes;  // the largest logit of each sample
  /// Softmax cross-entropy. On the CPU a sum of multiples of 2^-32, which a double adds exactly, in any order.
  double loss_sum = 0;
  torch::Tensor logits;  // [samples, classes] on the CPU, if requested

  double loss() const { return loss_sum / static_cast<double>(std::max<size_t>(classes.size(), 1)); }
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Adds the payloads of each finished client to `sums`; reports come in the order of task.clients. Client states are
  /// written to `store` for the caller to commit. Throws Interrupted when interrupted.
  virtual std::vector<ClientReport> train(const RoundTask& task, Sums& sums, ClientStore& store) = 0;
  Predictions predict(const State& state, const Split& split, bool logits = false) {
    return predict_part(state, split, 0, split.count(), logits);
  }
  /// Of consecutive samples; `first` is a multiple of evaluation_batch.
  virtual Predictions predict_part(const State& state, const Split& split, int64_t first, int64_t count,
                                   bool logits) = 0;
  virtual std::string describe() const = 0;
  /// Seconds of the last train() by phase, and the most device memory held so far; where an engine keeps count.
  virtual std::map<std::string, double> phase_seconds() const { return {}; }
  virtual int64_t peak_device_bytes() const { return 0; }
};

/// By client, the rank that trains it: the largest first, each to the rank that has least to do so far. A client stays
/// with its rank, so that its state never moves.
std::vector<int> owners_of(const Partition& partition, int ranks);

/// engine.workers, or one for each core.
int worker_threads(const EngineParams& params);
/// Whether make_engine() will take the GPU. Throws a usage Error if a GPU is requested and there is none.
bool on_cuda(const EngineParams& params);
std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation);
/// The same, with the clients distributed over ranks; `ranks` outlives it.
std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation, Communicator& ranks);

}  // namespace fedgrab
