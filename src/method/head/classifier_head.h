/// The classifier head of a run: kind, initial weights, and whether it is trained.
#pragma once

#include "fedgrab/method/head_params.h"
#include "fedgrab/part/part.h"

namespace fedgrab {

class ClassifierHead : public Part {
 public:
  /// `wanted`: the head that the loss requires.
  ClassifierHead(HeadParams params, const Head& wanted);

  const Head& head() const { return head_; }
  Needs needs(const Architecture& architecture, int64_t classes) const override;
  void initialise(State& global, uint64_t seed) const override;
  void before_training(const ClientContext& client, State& local, const LabelledFeatures* own) const override;
  std::vector<Payload> after_training(const ClientContext& client, const LocalResult& result) const override;
  void server_step(const RoundContext& round, const Sums& sums, State& model, TensorMap& server) const override;

 private:
  void initialise_etf(State& global, uint64_t seed) const;

  HeadParams params_;
  Head head_;
};

}  // namespace fedgrab
