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
    v.param("kind", kind, "logits by inner product or by cosine; auto: as the loss requires");
    v.param("init", init,
            "initial weights: random; a simplex equiangular tight frame (etf), dense or sparse; or the mean of random "
            "heads that the clients draw in round 1 (client-mean, the published Fed-GraB code)");
    v.param("frozen", frozen, "the classifier keeps its initial weights");
    v.param("norm", norm, "weight norm of an etf or sparse-etf (0: 16 / sqrt(features) for etf, 1 for sparse-etf)")
        .between(0, 1e3);
    v.param("scale", scale, "factor on the logits (0: 1 for linear; for cosine the value of the loss, else 10)")
        .between(0, 1e3);
    v.param("projected", projected,
            "a linear layer before the classifier, and a learned temperature after it (FedETF)");
    v.param("sparsity", sparsity, "sparse-etf: fraction of the weights that are zero").between(0, 0.95);
    v.param("steps", steps, "sparse-etf: Adam steps that maximise the angles between the weight vectors")
        .between(0, 1000000);
  }
};

}  // namespace fedgrab
