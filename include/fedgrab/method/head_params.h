/// Parameters of the classifier head.
#pragma once

#include <cstdint>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class HeadChoice { automatic, linear, cosine };
template <>
inline constexpr auto enum_names<HeadChoice> = names("auto", "linear", "cosine");

enum class HeadInit { random, etf, sparse_etf, client_mean };
template <>
inline constexpr auto enum_names<HeadInit> = names("random", "etf", "sparse-etf", "client-mean");

struct HeadParams {
  HeadChoice kind = HeadChoice::automatic;
  HeadInit init = HeadInit::random;
  bool frozen = false;
  double norm = 0, scale = 0;
  bool projected = false;
  double sparsity = 0.6;
  int64_t steps = 1000;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("kind", kind, "scores by inner product or by cosine; auto: what the loss asks for");
    v.param("init", init,
            "initial weights: random as any layer; a simplex equiangular tight frame (etf), dense or sparse; or the "
            "mean of random heads that the clients draw in round 1 (client-mean, the published Fed-GraB code)");
    v.param("frozen", frozen, "the classifier keeps its initial weights");
    v.param("norm", norm, "weight norm of an etf or sparse-etf (0: 16 / sqrt(features) for etf, 1 for sparse-etf)")
        .between(0, 1e3);
    v.param("scale", scale, "factor on the logits (0: 1 for linear; for cosine what the loss asks for, else 10)")
        .between(0, 1e3);
    v.param("projected", projected,
            "features pass a linear layer before the classifier, logits a learned temperature (FedETF)");
    v.param("sparsity", sparsity, "sparse-etf: share of the weights that are zero").between(0, 0.95);
    v.param("steps", steps, "sparse-etf: Adam steps that spread the weight vectors apart").between(0, 1000000);
  }
};

}  // namespace fedgrab
