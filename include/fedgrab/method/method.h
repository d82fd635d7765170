/// A federated method is a client rule plus a server rule. The base class is FedAvg; a method overrides what it does
/// differently and nothing else. Rules are data where they can be, so that an engine may fuse them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fedgrab/core/parameters.h"
#include "fedgrab/method/sums.h"
#include "fedgrab/model/state.h"
#include "fedgrab/objective/objective.h"

namespace fedgrab {

/// What one client knows at the start of a round. Counts and memory never leave it.
struct ClientView {
  int64_t client = 0;
  int64_t round = 0;  // from 1
  double share = 0;   // of the cohort's samples
  uint64_t seed = 0;
  const State& global;
  std::span<const int64_t> counts;       // its own samples per class
  TensorMap& memory;                     // its own, kept from round to round
  int64_t cohort = 1;                    // clients that take part in this round
  int64_t population = 1;                // clients of the federation
  const TensorMap& server = no_tensors;  // the server's memory, of which a method may send a part (see bytes_down)
};

/// How a head is trained: by which rule, with which prior. Without any rule it is left alone.
struct HeadRule {
  const Objective* objective = nullptr;
  torch::Tensor prior;
  /// Where the backbone is to learn by another rule than the head: what this one gives is sent through the head's
  /// weights into the features, and `objective` moves the head alone, or nothing does (the head must be detached and
  /// linear).
  const Objective* backbone = nullptr;
};

/// A loss on the features, beside what the heads send back (DESIGN: MOON). `others` are the features that other models
/// give the same images, by their running statistics; `batch` has mask and labels.
class FeatureTerm {
 public:
  virtual ~FeatureTerm() = default;
  /// features and each of others: [.., batch, features].
  virtual LogitLoss operator()(const torch::Tensor& features, const std::vector<torch::Tensor>& others,
                               const LogitBatch& batch) const = 0;
};

/// The local gradient is g + proximal · (w − w_global) + correction; heads as in the model.
struct ClientRule {
  std::vector<HeadRule> heads;
  double proximal = 0;
  torch::Tensor correction;     // flat, as the state; undefined: none
  torch::Tensor class_weights;  // importance of a sample by its label; undefined: 1
  torch::Tensor class_sizes;    // what losses take for the sizes of the classes; undefined: the client's own counts
  const FeatureTerm* feature_term = nullptr;
  std::vector<torch::Tensor> others;  // flat states of the models whose features it compares with
};

/// What a client has done when its local training ends.
struct LocalResult {
  const State& local;
  int64_t steps = 0;
  double lr = 0, momentum = 0;
};

/// One named term of the server's sums.
struct Contribution {
  std::string name;
  torch::Tensor values;
  double weight = 0;
  int64_t bytes = 0;  // what sending it costs
};

/// Where losses that go by the sizes of classes take them from.
struct PriorParams {
  std::string source = "local";
  std::string scale = "span";
  double span_min = 0.1;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("source", source,
            "what losses take for the sizes of the classes: the client's own counts, DPA's reading of a probe head, or "
            "the true counts of all clients together (which they must then reveal once)")
        .one_of({"local", "dpa", "truth"});
    v.param(
         "scale", scale,
         "source = dpa: sizes as the norms are (share), stretched onto [span_min, 1] (span), or by their rank (rank)")
        .one_of({"share", "span", "rank"});
    v.param("span_min", span_min, "source = dpa: smallest class over the largest").between(1e-6, 1);
  }
};

/// The loss of the classifying head, and what it takes for the sizes of the classes.
struct LocalLoss {
  std::unique_ptr<Objective> objective;
  PriorParams prior{};
};

class Method {
 public:
  explicit Method(LocalLoss loss);
  virtual ~Method() = default;

  /// All data in one place: the experiment makes a single client of it.
  virtual bool centralised() const { return false; }
  /// The heads of the model; the first one classifies.
  virtual std::vector<Head> heads() const;
  /// Whether it must know the true class counts of all clients together; learn_counts() is then called before round 1.
  virtual bool wants_counts() const { return prior_.source == "truth"; }
  void learn_counts(std::span<const int64_t> counts);
  /// May change what the global model starts from.
  virtual void initialise(State& /*global*/, uint64_t /*seed*/) const {}

  /// Called before each round with the clients that take part and the number of their samples.
  virtual void begin_round(int64_t /*round*/, uint64_t /*seed*/, std::span<const int64_t> /*clients*/,
                           std::span<const int64_t> /*sizes*/) {}
  /// Whether clients look at the features of their images before they train; observe() is then called.
  virtual bool wants_features() const { return false; }
  /// What the model it received makes of a client's own images, by running statistics and without augmentation.
  virtual void observe(const ClientView& /*view*/, const torch::Tensor& /*features*/,
                       const torch::Tensor& /*labels*/) const {}
  /// Whether prepare() does anything in this round.
  virtual bool prepares(int64_t /*round*/) const { return false; }
  /// Called before local training; may change the copy of the global model that the client starts from.
  virtual void prepare(const ClientView& /*view*/, const State& /*local*/) const {}
  virtual ClientRule client_rule(const ClientView& view) const;
  /// Called after local training, before the local model is gone; the default sends the shared part of the state.
  virtual std::vector<Contribution> contribute(const ClientView& view, const LocalResult& result) const;
  /// The model a client would use for itself after local training.
  virtual State personalised(const ClientView& /*view*/, const State& local) const { return local; }
  virtual Diagnostics diagnose(const ClientView& view) const { return objective_->diagnose(view.memory); }

  /// Turns the sums into the new global model; `memory` is the server's own, kept from round to round.
  virtual void server_rule(State& global, const Sums& sums, int64_t round, TensorMap& memory) const;
  /// The model that is evaluated and handed to users; training goes on from `global` itself.
  virtual State deployed(const State& global, const TensorMap& /*memory*/) const { return global; }
  /// The prior as clients would read it now, for the record; undefined where the method has none.
  virtual torch::Tensor shared_prior(const State& global, int64_t round) const;

  /// Bytes the server sends to one client.
  virtual int64_t bytes_down(const Model& model) const;

 protected:
  const Objective& objective() const { return *objective_; }
  /// True class counts of all clients; only where wants_counts().
  const torch::Tensor& true_counts() const { return true_counts_; }
  /// What stands in for the client's own counts; undefined: nothing does.
  torch::Tensor class_sizes(const ClientView& view) const;
  void adopt_shared(State& global, const torch::Tensor& average) const;

 private:
  bool has_probe() const { return prior_.source == "dpa"; }

  std::unique_ptr<Objective> objective_;
  PriorParams prior_;
  std::unique_ptr<Objective> plain_;  // of the probe
  torch::Tensor true_counts_;
};

/// Averaged by the server: everything that is neither frozen nor a client's own.
std::vector<Range> shared_ranges(const Model& model);
int64_t shared_bytes(const Model& model);

struct MethodEntry {
  std::string name;
  std::string group;
  std::string summary;
  std::unique_ptr<Method> (*make)(const Config& config);
  void (*declare)(Schema& schema) = nullptr;  // its parameters, where it has any and no entry before it has the same
  /// Values a preset changes before the user's own are applied.
  std::vector<std::pair<std::string, std::string>> preset{};
};
const std::vector<MethodEntry>& methods();
const MethodEntry& find_method(const std::string& name);

struct MethodParams {
  std::string name = "fedgrab";
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("name", name, "federated method or preset; `fedgrab run --method help` lists them");
  }
};
struct ObjectiveParams {
  std::string name = "auto";
  bool collect = false;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("name", name, "local loss of the classifying head; auto: the method's own");
    v.param("collect", collect,
            "collect the positive and negative gradients of every class and record their difference, delta, also where "
            "the loss has no use for it (sgb always does)");
  }
};

/// Adds the parameters of methods and objectives.
void declare_methods(Schema& schema);
/// The loss the user asked for, or `fallback` for auto.
LocalLoss chosen_loss(const Config& config, const std::string& fallback = "softmax");

}  // namespace fedgrab
