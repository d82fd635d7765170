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
    v.param(
        "weights", weights,
        "weight of a client in the average: its number of samples, the same for all, or the sample count of another "
        "client, drawn anew each round (a slip of the published Fed-GraB code)");
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
    v.param("tau", tau, "adagrad, adam, yogi: added to the root of the squared update").between(1e-12, 1);
    v.param("ema", ema,
            "decay of an exponential moving average of the global model, which is then evaluated and exported in its "
            "place (0: none); shorter averages in the first rounds")
        .between(0, 0.99999);
    v.param("clip", clip,
            "differential privacy: largest L2 norm of a client's update, over everything it sends (0: no clipping); "
            "needs server.weights = uniform")
        .between(0, 1e9);
    v.param("noise", noise,
            "differential privacy: standard deviation of the Gaussian noise that the server adds to the mean of the "
            "updates, times the clients of a round, over server.clip (0: no noise); drawn from train.seed, so that a "
            "simulated run protects nobody itself")
        .between(0, 1e6);
    v.param("delta", delta, "differential privacy: the delta for which epsilon is given; below 1 over the clients")
        .between(1e-100, 0.5);
  }
};

}  // namespace fedgrab
