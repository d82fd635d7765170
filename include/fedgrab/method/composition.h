/// A federated method as a composition of parts, with the interface for engines and the round loop.
#pragma once

#include <memory>
#include <vector>

#include "fedgrab/method/aggregator.h"
#include "fedgrab/method/client_algorithm.h"
#include "fedgrab/method/composition_params.h"
#include "fedgrab/method/head_params.h"
#include "fedgrab/method/posthoc.h"
#include "fedgrab/method/server_optimizer.h"
#include "fedgrab/prior/class_prior.h"

namespace fedgrab {

class ClassifierHead;
class LocalLoss;

class Composition {
 public:
  /// Throws a usage Error where a part is unknown or parts contradict each other.
  explicit Composition(const Config& config);
  Composition(Composition&&) noexcept;
  Composition& operator=(Composition&&) noexcept;
  ~Composition();

  /// The model of this run: backbone, classifier, auxiliary heads. Throws a usage Error where a part does not suit it.
  std::shared_ptr<const Model> model(Architecture architecture, int64_t classes);
  const Needs& needs() const { return needs_; }
  /// Differs between all compositions of a process.
  uint64_t id() const { return id_; }
  void initialise(State& global, uint64_t seed) const;
  /// Class counts of the federation, where needs().global_counts.
  void learn_counts(std::span<const int64_t> counts) { global_counts_ = to_tensor(counts); }

  // Before and after a round, at the server.
  RoundContext begin_round(int64_t round, uint64_t seed, std::vector<int64_t> cohort, std::vector<int64_t> sizes,
                           int64_t population, const State& global, const TensorMap& server) const;
  /// The new global model; order: target, noise, client algorithm, server optimiser, head, prior, post-hoc classifier,
  /// moving average. Changes the server's state.
  State aggregate(const RoundContext& round, const Sums& sums, TensorMap& server) const;
  /// The model before its post-hoc classifier: the moving average, where there is one.
  State undeployed(const State& global, const TensorMap& server) const;
  /// Whether deploy() needs fit() before it, and on which images.
  bool fitted() const { return needs_.logits; }
  FitImages fit_on() const { return posthoc_params_.fit_on; }
  /// Fits the post-hoc classifier to logits of undeployed(); changes the server's state.
  void fit(const LabelledLogits& images, const State& global, TensorMap& server) const;
  /// Whether deploy() needs fit_temperature() before it, after fit().
  bool has_temperature() const { return posthoc_params_.temperature; }
  /// Fits the temperature to logits of uncalibrated(); changes the server's state.
  void fit_temperature(const LabelledLogits& images, TensorMap& server) const;
  /// The deployed model without its temperature.
  State uncalibrated(const State& global, const TensorMap& server) const;
  /// What was fitted, for the record.
  PosthocNumbers posthoc_numbers(const TensorMap& server) const;
  /// The model that is evaluated and exported; training continues from `global`.
  State deploy(const State& global, const TensorMap& server) const;
  /// Probability of exemption by the gate of SGB, else the scaled prior; undefined: none. For the record.
  torch::Tensor recorded_prior(const RoundContext& round) const;

  // At a client.
  bool own_start(int64_t round) const;
  void before_training(const ClientContext& client, State& local, const LabelledFeatures* own) const;
  LocalProblem configure(const ClientContext& client) const;
  std::vector<Payload> after_training(const ClientContext& client, const LocalResult& result) const;
  State personalise(const ClientContext& client, const State& local) const;
  Diagnostics diagnose(const ClientContext& client) const;

  /// Whether the updates of clients are clipped (server.clip).
  bool clips() const { return server_.clip > 0; }

  /// Weights of the clients in the average.
  ClientWeights weighting() const { return server_.weights; }

  /// Bytes the server sends to a client in a round.
  int64_t bytes_down(const Model& model) const;
  /// Whether clients send nothing but weights to be averaged, as with a Flower strategy.
  bool weights_only() const { return !needs_.payloads && !needs_.global_counts && needs_.broadcast_bytes == 0; }

 private:
  void check(const Config& config) const;
  void check_privacy(const Config& config) const;
  bool fits_on_validation(const Config& config) const;
  torch::Tensor prior_of(const State& global, const TensorMap& server) const;
  std::vector<const Part*> parts() const;  // whose hooks run at the clients, and at the server after the optimiser

  ServerParams server_;
  std::unique_ptr<ClassPrior> prior_;  // null: none
  std::unique_ptr<LocalLoss> loss_;
  std::unique_ptr<ClassifierHead> head_;
  std::unique_ptr<ClientAlgorithm> client_;
  std::unique_ptr<Aggregator> aggregator_;
  std::unique_ptr<ServerOptimizer> optimizer_;  // null: none
  PosthocParams posthoc_params_;
  std::unique_ptr<PosthocClassifier> posthoc_;  // null: none
  std::unique_ptr<Objective> auxiliary_loss_;   // of every auxiliary head
  Needs needs_;
  torch::Tensor global_counts_;
  uint64_t id_;
  bool central_ = false;  // all data in one place: nothing is sent
};

/// Declares the parameters of all parts.
void declare_parts(Schema& schema);

}  // namespace fedgrab
