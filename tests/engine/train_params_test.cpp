#include "fedgrab/engine/train_params.h"

#include <gtest/gtest.h>

namespace fedgrab::train_params_test {

TEST(LearningRate, StaysConstantUnlessAskedOtherwise) {
  const TrainParams params{.lr = 0.3};
  EXPECT_EQ(learning_rate(params, 1), 0.3);
  EXPECT_EQ(learning_rate(params, 1000), 0.3);
}

TEST(LearningRate, FollowsTheCosineFromTheFullRateTowardsZero) {
  const TrainParams params{.rounds = 100, .lr = 0.2, .schedule = Schedule::cosine};
  EXPECT_DOUBLE_EQ(learning_rate(params, 1), 0.2);
  EXPECT_NEAR(learning_rate(params, 51), 0.1, 1e-12);
  EXPECT_GT(learning_rate(params, 100), 0);
  EXPECT_LT(learning_rate(params, 100), 0.2 * 1e-3);
}

TEST(LearningRate, FollowsTheCosineToTheFinalRate) {
  const TrainParams params{.rounds = 100, .lr = 0.2, .schedule = Schedule::cosine, .final_lr = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(params, 1), 0.2);
  EXPECT_NEAR(learning_rate(params, 51), 0.11, 1e-12);
  EXPECT_GT(learning_rate(params, 100), 0.02);
  EXPECT_LT(learning_rate(params, 100), 0.02 * 1.01);
}

TEST(LearningRate, DropsAfterEachMilestone) {
  const TrainParams params{.lr = 1, .schedule = Schedule::step, .lr_decay = 0.1, .lr_milestones = {3, 5}};
  EXPECT_DOUBLE_EQ(learning_rate(params, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate(params, 4), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(params, 5), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(params, 6), 0.01);
}

TEST(LearningRate, DecaysEveryRound) {
  const TrainParams params{.lr = 8, .schedule = Schedule::exponential, .lr_decay = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(params, 1), 8);
  EXPECT_DOUBLE_EQ(learning_rate(params, 4), 1);
}

TEST(LearningRate, RisesLinearlyBeforeTheSchedule) {
  const TrainParams constant{.lr = 0.5, .warmup_rounds = 4};
  for (int64_t round = 1; round <= 4; ++round)
    EXPECT_DOUBLE_EQ(learning_rate(constant, round), 0.1 * static_cast<double>(round));
  EXPECT_DOUBLE_EQ(learning_rate(constant, 5), 0.5);

  const TrainParams cosine{.rounds = 104, .lr = 0.2, .schedule = Schedule::cosine, .warmup_rounds = 4};
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 4), 0.2 * 4 / 5);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 5), 0.2);
  EXPECT_NEAR(learning_rate(cosine, 55), 0.1, 1e-12);

  const TrainParams exponential{.lr = 8, .schedule = Schedule::exponential, .warmup_rounds = 1, .lr_decay = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(exponential, 1), 4);
  EXPECT_DOUBLE_EQ(learning_rate(exponential, 2), 8);
  EXPECT_DOUBLE_EQ(learning_rate(exponential, 3), 4);
}

TEST(LearningRate, IsThatOfTheRoundWithMilestonesAfterAWarmUp) {
  const TrainParams params{
      .lr = 1, .schedule = Schedule::step, .warmup_rounds = 2, .lr_decay = 0.1, .lr_milestones = {3}};
  EXPECT_DOUBLE_EQ(learning_rate(params, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate(params, 4), 0.1);
}

TEST(LearningRate, RisesStillWhereEveryRoundIsWarmUp) {
  const TrainParams params{.rounds = 2, .lr = 1, .schedule = Schedule::cosine, .warmup_rounds = 3};
  EXPECT_DOUBLE_EQ(learning_rate(params, 2), 0.5);
}

}  // namespace fedgrab::train_params_test
