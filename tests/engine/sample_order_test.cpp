/// The order in which a client goes through its samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/cohort.h"

namespace fedgrab::sample_order_test {

/// One client of 60, 30 and 3 samples of the classes 0, 1 and 3; class 2 is another client's.
class SampleOrder : public testing::Test {
 protected:
  SampleOrder() {
    data_.class_names = {"a", "b", "c", "d"};
    for (const auto& [label, count] : std::map<int32_t, int64_t>{{0, 60}, {1, 30}, {3, 3}})
      for (int64_t i = 0; i < count; ++i) {
        data_.train.labels.push_back(2);
        partition_[1].push_back(next_++);
        data_.train.labels.push_back(label);
        partition_[0].push_back(next_++);
      }
  }
  std::vector<int64_t> order(Sampling sampling, int64_t client = 0, int64_t round = 1, int64_t epoch = 0,
                             uint64_t seed = 1) {
    const Federation federation{data_, partition_, nullptr, {.sampling = sampling}};
    const auto counts = class_counts(data_.train.labels, partition_[static_cast<size_t>(client)], 4);
    TensorMap state;
    const TensorMap server;
    const State none;
    const RoundContext context{.round = round, .seed = seed, .global = none, .server = server};
    return sample_order(federation, {.round = context, .client = client, .counts = counts, .state = state}, epoch);
  }
  std::map<int32_t, int64_t> classes_in(const std::vector<int64_t>& order, size_t client = 0) const {
    std::map<int32_t, int64_t> found;
    for (const int64_t i : order)
      ++found[data_.train.labels[static_cast<size_t>(partition_[client].at(static_cast<size_t>(i)))]];
    return found;
  }

  Dataset data_;
  Partition partition_{2};
  int64_t next_ = 0;
};

TEST_F(SampleOrder, ShuffledHasEverySampleOnce) {
  auto all = order(Sampling::shuffled);
  EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<int64_t>(i));
  EXPECT_EQ(all.size(), 93U);
}

TEST_F(SampleOrder, BalancedIsAsLongAndHasOnlyTheClientsOwn) {
  const auto drawn = order(Sampling::class_balanced);
  EXPECT_EQ(drawn.size(), 93U);
  for (const int64_t i : drawn) EXPECT_TRUE(i >= 0 && i < 93) << i;
  EXPECT_FALSE(classes_in(drawn).contains(2));  // a class it lacks
}

TEST_F(SampleOrder, BalancedDrawsEveryClassAboutEquallyOften) {
  std::map<int32_t, int64_t> total;
  for (int64_t epoch = 0; epoch < 40; ++epoch)
    for (const auto& [label, count] : classes_in(order(Sampling::class_balanced, 0, 1, epoch))) total[label] += count;
  ASSERT_EQ(total.size(), 3U);
  for (const auto& [label, count] : total) EXPECT_NEAR(count, 40 * 93 / 3, 130) << label;  // 4.5 deviations
}

TEST_F(SampleOrder, BalancedUsesAllSamplesOfAClassBeforeOneComesAgain) {
  std::map<int64_t, int64_t> times;
  for (const int64_t i : order(Sampling::class_balanced)) ++times[i];
  const auto range = [&](int64_t first, int64_t count) {  // of how often each sample of one class came
    int64_t least = 93, most = 0;
    for (int64_t i = first; i < first + count; ++i) {
      const int64_t n = times.contains(i) ? times.at(i) : 0;
      least = std::min(least, n);
      most = std::max(most, n);
    }
    return most - least;
  };
  EXPECT_LE(range(0, 60), 1);
  EXPECT_LE(range(60, 30), 1);
  EXPECT_LE(range(90, 3), 1);
  EXPECT_GT(times[90], 3);  // three samples for a third of the draws
}

TEST_F(SampleOrder, FollowsFromSeedClientRoundAndEpoch) {
  for (const auto sampling : {Sampling::shuffled, Sampling::class_balanced}) {
    const auto first = order(sampling);
    EXPECT_EQ(order(sampling), first);
    EXPECT_NE(order(sampling, 0, 2), first);
    EXPECT_NE(order(sampling, 0, 1, 1), first);
    EXPECT_NE(order(sampling, 0, 1, 0, 2), first);
  }
  partition_[1] = partition_[0];  // another client of the same samples
  EXPECT_NE(order(Sampling::class_balanced, 1), order(Sampling::class_balanced, 0));
}

TEST_F(SampleOrder, OfOneClassIsShuffledEitherWay) {
  auto all = order(Sampling::class_balanced, 1);
  ASSERT_EQ(all.size(), 93U);
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<int64_t>(i));
}

}  // namespace fedgrab::sample_order_test
