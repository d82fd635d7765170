/// Trains a cohort of clients for one round and evaluates a model. Knows nothing of methods beyond their interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fedgrab/data/dataset.h"
#include "fedgrab/data/partition.h"
#include "fedgrab/engine/client_store.h"
#include "fedgrab/engine/train_params.h"
#include "fedgrab/method/method.h"

namespace fedgrab {

struct EngineParams {
  std::string device = "cpu";
  int64_t workers = 0;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("device", device, "where clients are trained").one_of({"cpu"});
    v.param("workers", workers, "clients trained at once, one thread each (0: one per core)").between(0, 1024);
  }
};

/// What every engine works on; outlives it.
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
  std::vector<double> accuracy;  // by class, after local training, where asked for
};

struct RoundTask {
  int64_t round = 0;
  const std::vector<int64_t>& clients;
  const State& global;
  const Method& method;
  bool evaluate_clients = false;
};

struct Predictions {
  std::vector<int32_t> classes;  // the largest logit of each sample
  double loss = 0;               // mean softmax cross-entropy
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Folds each finished client into `sums`; reports come in the order of task.clients. Client memory is written to
  /// `store` only when the whole round is done. Throws Interrupted when asked to stop.
  virtual std::vector<ClientReport> train(const RoundTask& task, Sums& sums, ClientStore& store) = 0;
  virtual Predictions predict(const State& state, const Split& split) = 0;
  virtual std::string describe() const = 0;
};

std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation);

}  // namespace fedgrab
