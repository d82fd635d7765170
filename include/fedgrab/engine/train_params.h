/// How a client trains.
#pragma once

#include <cstdint>
#include <vector>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class Sampling { shuffled, class_balanced };
template <>
inline constexpr auto enum_names<Sampling> = names("shuffled", "class-balanced");

enum class Schedule { constant, cosine, step, exponential };
template <>
inline constexpr auto enum_names<Schedule> = names("constant", "cosine", "step", "exponential");

struct TrainParams {
  int64_t rounds = 30;
  double participation = 1.0;
  int64_t local_epochs = 2;
  int64_t batch = 10;
  Sampling sampling = Sampling::shuffled;
  double mixup = 0, cutmix = 0;
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  bool decay_norms = true;
  double clip = 0;
  Schedule schedule = Schedule::constant;
  double final_lr = 0;
  int64_t warmup_rounds = 0;
  double lr_decay = 0.1;
  std::vector<int64_t> lr_milestones;
  int64_t seed = 1;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("rounds", rounds, "communication rounds").between(1, 10000000);
    v.param("participation", participation, "fraction of the clients that train in a round").between(1e-6, 1);
    v.param("local_epochs", local_epochs, "local epochs of a client per round").between(1, 10000);
    v.param("batch", batch, "batch size; the last, smaller batch of an epoch is used too").between(1, 1000000);
    v.param("sampling", sampling,
            "samples of a client's epoch: all of them in random order, or as many with uniformly drawn classes");
    v.param("mixup", mixup,
            "mixup: alpha of the Beta(alpha, alpha) distribution of the mixing weight of a batch (0: off)")
        .between(0, 100);
    v.param("cutmix", cutmix,
            "cutmix: alpha of the Beta(alpha, alpha) distribution of the pasted area of a batch (0: off); with mixup, "
            "each step uses one of the two")
        .between(0, 100);
    v.param("lr", lr, "learning rate").between(0, 1000);
    v.param("momentum", momentum, "SGD momentum; the buffer is reset at the start of each round").between(0, 0.9999);
    v.param("weight_decay", weight_decay, "weight decay (L2)").between(0, 10);
    v.param("decay_norms", decay_norms, "apply weight decay to BatchNorm parameters and biases too");
    v.param("clip", clip, "largest L2 norm of the gradient of a step (0: no clipping)").between(0, 1e9);
    v.param("schedule", schedule,
            "learning rate over the rounds: constant, cosine to final_lr, times lr_decay at lr_milestones, or times "
            "lr_decay every round");
    v.param("final_lr", final_lr, "cosine schedule: final learning rate as a fraction of lr").between(0, 1);
    v.param("warmup_rounds", warmup_rounds,
            "rounds of linear warm-up of the learning rate; cosine and exponential schedules start after them")
        .between(0, 10000000);
    v.param("lr_decay", lr_decay, "factor of the step and exponential schedules").between(1e-6, 1);
    v.param("lr_milestones", lr_milestones,
            "step schedule: rounds after which the learning rate is multiplied by lr_decay")
        .at_least(1);
    v.param("seed", seed, "seed of all random numbers").at_least(0);
  }
};

/// Learning rate of a round, from 1.
double learning_rate(const TrainParams& params, int64_t round);

}  // namespace fedgrab
