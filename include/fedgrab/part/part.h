/// A run is a composition of independent parts: loss, class prior, classifier head, client algorithm, aggregator,
/// server optimiser, post-hoc classifier. This file has their contexts and the hooks they share. Hooks are optional and
/// const: all state is in the client's and the server's TensorMap, so that checkpoints, MPI and Flower carry it without
/// interpreting it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fedgrab/model/state.h"
#include "fedgrab/objective/objective.h"
#include "fedgrab/part/sums.h"

namespace fedgrab {

/// The data of a round that both server and clients have.
struct RoundContext {
  int64_t round = 0;  // from 1
  uint64_t seed = 0;
  std::vector<int64_t> cohort;  // clients of this round
  std::vector<int64_t> sizes;   // their numbers of samples
  std::vector<double> weights;  // in the average; their sum is 1
  int64_t population = 1;       // clients of the federation
  const State& global;
  const TensorMap& server;      // state of the server; what a part broadcasts of it is declared in Needs
  torch::Tensor prior;          // estimated class prior, unscaled; undefined: none
  torch::Tensor global_counts;  // class counts of the federation, where a part needs them
};

/// One client in a round. Counts and state never leave it.
struct ClientContext {
  const RoundContext& round;
  int64_t client = 0;
  double weight = 0;                // in the average
  std::span<const int64_t> counts;  // its samples per class
  TensorMap& state;                 // persistent client state
};

/// Features of a client's images under the model it received, with running statistics and without augmentation.
struct LabelledFeatures {
  torch::Tensor features, labels;
};

/// A head and the loss that trains it.
struct HeadLoss {
  const Objective* objective = nullptr;
  torch::Tensor prior;  // [classes], probability of exemption for a loss with a gate; undefined: none
};

/// A loss on the features, in addition to the losses of the heads (MOON). `references` are the features of the same
/// images under other models, with running statistics; `batch` has mask and labels. Features are [.., batch, features].
class FeatureLoss {
 public:
  virtual ~FeatureLoss() = default;
  virtual LogitLoss operator()(const torch::Tensor& features, const std::vector<torch::Tensor>& references,
                               const LogitBatch& batch) const = 0;
};

/// The local objective of one client: the loss of each head. The gradient is g + proximal · (w − w_global) +
/// correction; auxiliary heads are exempt from both terms.
struct LocalProblem {
  std::vector<HeadLoss> heads;  // as in the model
  double proximal = 0;
  torch::Tensor correction;     // flat, as the state; undefined: none
  torch::Tensor class_weights;  // importance of a sample by its label; undefined: 1
  torch::Tensor class_sizes;    // for losses that use class sizes; undefined: the client's own counts
  const FeatureLoss* feature_loss = nullptr;
  std::vector<torch::Tensor> reference_models;  // flat states, for feature_loss
};

struct LocalResult {
  const State& local;
  int64_t steps = 0;
  double lr = 0, momentum = 0;
};

enum class Weighting { server_weights, per_population, none };

/// One named tensor that a client sends; the server receives the weighted sum over the cohort.
struct Payload {
  std::string name;
  torch::Tensor values;
  Weighting weighting = Weighting::server_weights;
  int64_t bytes = 0;
};

/// Whether the model a client starts from differs from the global one.
enum class OwnStart { never, first_round, always };

/// Requirements of a part; merged over all parts and checked before the first round.
struct Needs {
  std::vector<Head> auxiliary;   // heads beside the classifier, trained on detached features by softmax
  int64_t broadcast_bytes = 0;   // of server state that each client receives in each round
  int64_t broadcast_models = 0;  // the same, in sizes of the optimised part of the model
  OwnStart own_start = OwnStart::never;
  bool global_counts = false;  // every client reveals its class counts once
  bool features = false;       // before_training() reads the features of the client's images
  bool logits = false;         // the post-hoc classifier is fitted to logits of labelled images
  bool linear_head = false;    // the classifier must be linear
  bool plain_head = false;     // it must read the features as they are, without a projection
  bool prior = false;          // an estimate of the class prior
  bool payloads = false;       // clients send more than the averaged model
  bool moves_target = false;   // server_step() corrects the mean of the clients' models
  std::string hard_labels;     // why an image must have one label and not be mixed; empty: it may have two
};

class Part {
 public:
  virtual ~Part() = default;
  /// May throw a usage Error if the part does not support the network or the number of classes. 0 classes: neither is
  /// known yet.
  virtual Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const { return {}; }
  virtual void initialise(State& /*global*/, uint64_t /*seed*/) const {}
  /// Before local training; may change `local`, the client's copy of the global model, if own_start says so. `own` is
  /// null unless the part needs features.
  virtual void before_training(const ClientContext& /*client*/, State& /*local*/,
                               const LabelledFeatures* /*own*/) const {}
  virtual void configure(const ClientContext& /*client*/, LocalProblem& /*problem*/) const {}
  virtual std::vector<Payload> after_training(const ClientContext& /*client*/, const LocalResult& /*result*/) const {
    return {};
  }
  /// `model` is the global model as changed by this round so far, `server` the state of the server.
  virtual void server_step(const RoundContext& /*round*/, const Sums& /*sums*/, State& /*model*/,
                           TensorMap& /*server*/) const {}
};

/// Whether it belongs to an auxiliary head. Server optimisers and corrections of clients do not change these.
bool is_auxiliary(const Model& model, const ParameterInfo& parameter);
/// Averaged by the server: everything that is neither frozen nor personal.
std::vector<Range> shared_ranges(const Model& model);
int64_t shared_bytes(const Model& model);
/// What an optimiser changes and the server averages: the shared part without BatchNorm's statistics and without
/// auxiliary heads.
std::vector<Range> optimised_ranges(const Model& model);
int64_t optimised_bytes(const Model& model);
/// BatchNorm's running statistics.
std::vector<Range> statistics_ranges(const Model& model);

/// Number of steps without momentum that cover the same distance as `steps` with it: ‖a‖₁ = [τ − m(1 − m^τ)/(1 − m)]/(1
/// − m).
double effective_steps(int64_t steps, double momentum);

/// A flat tensor of the model's size in a state, zeros where there is none yet.
torch::Tensor flat_in(const TensorMap& state, const std::string& name, const State& like);

/// Class counts as a float tensor.
torch::Tensor to_tensor(std::span<const int64_t> counts);

}  // namespace fedgrab
