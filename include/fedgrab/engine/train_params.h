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
    v.param("participation", participation, "share of the clients that train in a round").between(1e-6, 1);
    v.param("local_epochs", local_epochs, "passes over its own data a client makes in a round").between(1, 10000);
    v.param("batch", batch, "samples per local step; the last, smaller batch is kept").between(1, 1000000);
    v.param("sampling", sampling,
            "how a client goes through its samples: every one once an epoch, or as many steps with every class it has "
            "drawn equally often");
    v.param("mixup", mixup,
            "alpha: a step blends every image with another of its batch, and the labels alike, by a share drawn from "
            "Beta(alpha, alpha) (0: off)")
        .between(0, 100);
    v.param("cutmix", cutmix,
            "alpha: a step pastes a box of another image into every image, by a share drawn as for mixup (0: off); "
            "with mixup, each step does one of the two")
        .between(0, 100);
    v.param("lr", lr, "learning rate").between(0, 1000);
    v.param("momentum", momentum, "SGD momentum, from zero at the start of each round").between(0, 0.9999);
    v.param("weight_decay", weight_decay, "L2 penalty").between(0, 10);
    v.param("decay_norms", decay_norms, "weight decay also of BatchNorm's parameters and of biases");
    v.param("clip", clip, "largest L2 norm of a step's gradient (0: no clipping)").between(0, 1e9);
    v.param("schedule", schedule,
            "learning rate over the rounds: constant, cosine to final_lr, lr_decay at lr_milestones, or lr_decay every "
            "round");
    v.param("final_lr", final_lr, "share of lr that the cosine schedule ends at").between(0, 1);
    v.param("warmup_rounds", warmup_rounds,
            "first rounds, over which the learning rate rises linearly; cosine and exponential schedules begin after "
            "them")
        .between(0, 10000000);
    v.param("lr_decay", lr_decay, "factor of the step and exponential schedules").between(1e-6, 1);
    v.param("lr_milestones", lr_milestones, "rounds after which the step schedule multiplies by lr_decay").at_least(1);
    v.param("seed", seed, "every random number follows from it").at_least(0);
  }
};

/// Learning rate of a round, from 1.
double learning_rate(const TrainParams& params, int64_t round);

}  // namespace fedgrab
