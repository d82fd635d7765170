/// The loss of the classifier, with its prior, class sizes and sample weights.
#pragma once

#include <memory>

#include "fedgrab/method/composition_params.h"
#include "fedgrab/objective/balancer_params.h"
#include "fedgrab/prior/class_prior.h"

namespace fedgrab {

class LocalLoss : public Part {
 public:
  /// `prior` may be null and outlives this.
  LocalLoss(const Config& config, const ClassPrior* prior);

  const Objective& objective() const { return *objective_; }
  Needs needs(const Architecture& architecture, int64_t classes) const override;
  void initialise(State& global, uint64_t seed) const override;
  void configure(const ClientContext& client, LocalProblem& problem) const override;

  /// What the gate reads where it is the same for all clients; undefined: none.
  torch::Tensor gate(const RoundContext& round) const;

 private:
  torch::Tensor scaled(const torch::Tensor& values) const;
  torch::Tensor class_sizes(const ClientContext& client) const;

  ObjectiveParams params_;
  PriorParams prior_params_;
  std::string hard_labels_;  // as in Needs
  Gate gate_ = Gate::automatic;
  const ClassPrior* prior_;
  std::unique_ptr<Objective> objective_;
};

}  // namespace fedgrab
