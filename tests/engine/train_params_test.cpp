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

}  // namespace fedgrab::train_params_test
