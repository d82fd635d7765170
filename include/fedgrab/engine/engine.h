/// Trains a cohort of clients for one round and evaluates a model. Knows nothing of methods beyond their interface.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
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
  std::string device = "auto";
  int64_t workers = 0;
  std::string precision = "bf16";
  int64_t slots = 40, groups = 8;
  double memory = 0;
  std::string data = "auto";
  bool deterministic = false;
  double client_memory = 4;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("device", device, "where clients are trained; auto: cuda where there is one")
        .one_of({"auto", "cpu", "cuda"});
    v.param("workers", workers, "cpu: clients trained at once, one thread each (0: one per core)").between(0, 1024);
    v.param("precision", precision,
            "cuda: activations and operands of convolutions; weights, momentum and sums are always float")
        .one_of({"fp32", "tf32", "bf16"});
    v.param("slots", slots, "cuda: clients trained at once, at most").between(1, 4096);
    v.param("groups", groups,
            "cuda: streams the slots are dealt to, so that one computes while another waits for memory")
        .between(1, 64);
    v.param("memory", memory,
            "cuda: GiB of device memory for the slots; data and evaluation come on top (0: what is free)")
        .between(0, 100000);
    v.param(
         "data", data,
         "cuda: images on the device, or streamed to it from memory as they are used; auto: on the device where they "
         "take at most half of what is free")
        .one_of({"auto", "resident", "streamed"});
    v.param(
        "deterministic", deterministic,
        "cuda: bit-identical reruns on the same machine: the usual tiles instead of the fastest by measurement, never "
        "fewer slots than asked for, and no other slots, groups or precision on resume (the cpu always is)");
    v.param("client_memory", client_memory,
            "GiB of RAM for what clients keep from round to round; the rest goes to files in the run directory")
        .between(0, 100000);
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
  const TensorMap& server = no_tensors;  // the server's memory, for methods that send some of it
  bool evaluate_clients = false;
  const std::vector<int64_t>* cohort = nullptr;  // all that train in the round, where `clients` are a rank's own

  const std::vector<int64_t>& everyone() const { return cohort == nullptr ? clients : *cohort; }
};

constexpr int64_t evaluation_batch = 250;  // of the CPU, and the grain in which ranks share an evaluation

struct Predictions {
  std::vector<int32_t> classes;  // the largest logit of each sample
  /// Softmax cross-entropy. On the CPU a sum of multiples of 2^-32, which a double adds exactly, in any order.
  double loss_sum = 0;

  double loss() const { return loss_sum / static_cast<double>(std::max<size_t>(classes.size(), 1)); }
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Folds each finished client into `sums`; reports come in the order of task.clients. What clients keep is written to
  /// `store` for the caller to commit. Throws Interrupted when asked to stop.
  virtual std::vector<ClientReport> train(const RoundTask& task, Sums& sums, ClientStore& store) = 0;
  virtual Predictions predict(const State& state, const Split& split) = 0;
  /// Of some samples in a row; where an engine cannot but do all, it cuts them out. `first` is a multiple of
  /// evaluation_batch.
  virtual Predictions predict_part(const State& state, const Split& split, int64_t first, int64_t count);
  virtual std::string describe() const = 0;
  /// Seconds of the last train() by phase, and the most device memory held so far; where an engine keeps count.
  virtual std::map<std::string, double> phase_seconds() const { return {}; }
  virtual int64_t peak_device_bytes() const { return 0; }
};

/// By client, the rank that trains it: the largest first, each to the rank that has least to do so far. A client stays
/// with its rank, so that what it keeps never moves.
std::vector<int> owners_of(const Partition& partition, int ranks);

/// Whether make_engine() will take the GPU. Throws a usage Error where one is asked for and there is none.
bool on_cuda(const EngineParams& params);
std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation);

}  // namespace fedgrab
