/// Parameters of the server: aggregation, optimiser, averaging of the global model.
#pragma once

#include <string>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class ClientWeights { samples, uniform, shuffled };
template <>
inline constexpr auto enum_names<ClientWeights> = names("samples", "uniform", "shuffled");

struct ServerParams {
  ClientWeights weights = ClientWeights::samples;
  std::string aggregator = "average", optimizer = "none";
  double lr = 0, beta1 = 0.9, beta2 = 0.99, tau = 1e-3;
  double ema = 0;
  double clip = 0, noise = 0, delta = 1e-5;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("weights", weights,
            "weight of a client in the average: its number of samples, equal weights, or the sample count of a client "
            "drawn anew in each round (an error of the published Fed-GraB code)");
    v.param(
        "aggregator", aggregator,
        "average of the clients' models (average), or of their updates divided by the number of local steps (nova)");
    v.param(
        "optimizer", optimizer,
        "optimiser of the server, with the averaged update as its gradient: momentum, adagrad, adam, yogi, or none");
    v.param("lr", lr, "learning rate of the server optimiser (0: 1 for momentum, 0.01 for the adaptive ones)")
        .between(0, 1000);
    v.param("beta1", beta1, "momentum of the server optimiser").between(0, 0.9999);
    v.param("beta2", beta2, "adam, yogi: decay of the squared update").between(0, 0.9999);
    v.param("tau", tau, "adagrad, adam, yogi: constant added to the root of the squared update").between(1e-12, 1);
    v.param("ema", ema,
            "decay of an exponential moving average of the global model, which is evaluated and exported in its place "
            "(0: none); smaller in the first rounds")
        .between(0, 0.99999);
    v.param("clip", clip,
            "differential privacy: largest L2 norm of a client's update, over everything it sends (0: no clipping); "
            "needs server.weights = uniform")
        .between(0, 1e9);
    v.param("noise", noise,
            "differential privacy: noise multiplier; the server adds Gaussian noise with standard deviation noise * "
            "clip / clients of the round to the mean update (0: no noise). The noise follows from train.seed, so a "
            "simulated run gives no protection")
        .between(0, 1e6);
    v.param("delta", delta,
            "differential privacy: delta for which epsilon is reported; choose it below 1 / number of clients")
        .between(1e-100, 0.5);
  }
};

}  // namespace fedgrab
