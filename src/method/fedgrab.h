/// Fed-GraB (NeurIPS 2023): SGB on the classifying head, steered by a class prior that DPA reads off the global model.
#pragma once

#include "fedgrab/method/method.h"
#include "fedgrab/objective/balancer.h"

namespace fedgrab {

struct FedGrabParams {
  std::string head = "frozen";
  std::string head_init = "auto";
  std::vector<double> head_bias;
  std::string head_kind = "linear";
  double head_scale = 0;
  std::string head_gradient = "balanced";
  std::string prior = "probe";
  std::string prior_scale = "rank";
  double span_min = 0.1;
  double probe_keep = 0.5;
  std::vector<double> fixed_prior;
  double shift = -1;
  int64_t warmup_rounds = 0;
  bool shuffled_weights = false;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param(
         "head", head,
         "classifying head: frozen where it is when the balancers start (at head_init without warm-up), frozen at the "
         "mean of the clients' own random heads "
         "(the published code), following the probe head from round to round, or trained")
        .one_of({"frozen", "frozen-mean", "follow", "trained"});
    v.param("head_init", head_init,
            "where the classifying head starts: at random like any layer, or with all classes equally far from each "
            "other (etf); auto: etf for head = frozen")
        .one_of({"auto", "random", "etf"});
    v.param("head_bias", head_bias,
            "head_init = etf: logit of a class before it is learnt, one for all or one per class (empty: that of 1/M, "
            "so that no sigmoid has to unlearn an even chance)")
        .between(-100, 100);
    v.param("head_kind", head_kind, "scores by inner product, or by cosine, which has no bias")
        .one_of({"linear", "cosine"});
    v.param("head_scale", head_scale,
            "factor on the logits of the classifying head (0: 10 for cosine, 16 / sqrt(features) for etf, else 1)")
        .between(0, 1e3);
    v.param("head_gradient", head_gradient,
            "head = trained: the head itself learns from the balanced gradient too, or from the plain one while the "
            "balanced one goes into the backbone alone")
        .one_of({"balanced", "plain"});
    v.param(
         "prior", prior,
         "where the class prior comes from: a probe head, the classifying head, fixed_prior, fixed_prior through the "
         "gate of the published code, the client's own class counts, or none (no class is ever exempt)")
        .one_of({"probe", "head", "fixed", "published", "local", "none"});
    v.param("prior_scale", prior_scale,
            "sum 1, largest 1, linear onto [span_min, 1], or geometric from 1 to span_min by rank")
        .one_of({"share", "max", "span", "rank"});
    v.param("span_min", span_min, "smallest prior of the scales span and rank").between(0, 1);
    v.param("probe_keep", probe_keep,
            "share of the probe's weights that the server keeps from round to round; below 1 their norms tell what "
            "classes taught of late, and not who had time to catch up (head = follow keeps all)")
        .between(0, 1);
    v.param("fixed_prior", fixed_prior,
            "prior by class for prior = fixed and published (empty: 0.1^(c/(M-1)), which takes class 0 for the "
            "commonest and the last for the rarest)")
        .between(0, 1);
    v.param(
         "shift", shift,
         "how far the model that is evaluated and handed out raises the rarest class, in leads of a clear answer, and "
         "the others by the norms of the rows that the prior is read from (fixed priors: by the prior itself); 0: "
         "plain logits decide; -1: for 3 to 12 classes 0.4, and 0.7 where the network has 256 features or more, else 0")
        .between(-1, 1e3);
    v.param("warmup_rounds", warmup_rounds, "rounds of FedAvg before the balancers start").at_least(0);
    v.param("shuffled_weights", shuffled_weights,
            "average each client with the weight of another one, drawn anew each round (a slip of the published code)");
  }
};

class FedGrab : public Method {
 public:
  FedGrab(FedGrabParams params, BalancerParams balancer);

  std::vector<Head> heads() const override;
  void initialise(State& global, uint64_t seed) const override;
  void begin_round(int64_t round, uint64_t seed, std::span<const int64_t> clients,
                   std::span<const int64_t> sizes) override;
  bool prepares(int64_t round) const override { return params_.head == "frozen-mean" && round == 1; }
  void prepare(const ClientView& view, const State& local) const override;
  ClientRule client_rule(const ClientView& view) const override;
  std::vector<Contribution> contribute(const ClientView& view, const LocalResult& result) const override;
  void server_rule(State& global, const Sums& sums, int64_t round, TensorMap& memory) const override;
  State deployed(const State& global, const TensorMap& memory) const override;
  torch::Tensor shared_prior(const State& global, int64_t round) const override;

 private:
  bool equal_angles() const {
    return params_.head_init == "etf" || (params_.head_init == "auto" && params_.head == "frozen");
  }
  /// A frozen head that is to be trained first, in the rounds of warm-up.
  bool frozen_later() const { return params_.head == "frozen" && params_.warmup_rounds > 0; }
  /// The backbone learns by a rule of its own.
  bool split() const { return frozen_later() || (params_.head == "trained" && params_.head_gradient == "plain"); }
  bool has_probe() const { return params_.prior == "probe" || params_.head == "follow"; }
  bool warming_up(int64_t round) const { return round <= params_.warmup_rounds; }

  /// Networks on which it was seen to learn less than FedAvg, or nothing (results/fedgrab.md).
  void warn_of_what_suits_badly(const Model& model) const;
  /// The default was chosen on small networks of 64 features and two large ones of 512 (results/fedgrab.md).
  double shift_for(const Model& model) const;
  /// P by a scale: what all clients read off the global model alike; undefined where there is no such prior.
  torch::Tensor read_prior(const State& global, const std::string& scale) const;

  FedGrabParams params_;
  BalancedObjective balanced_;
  std::unique_ptr<Objective> plain_;           // of the probe, and of every head while warming up
  std::map<int64_t, double> shuffled_shares_;  // by client, of this round
};

}  // namespace fedgrab
