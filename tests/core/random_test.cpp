#include "fedgrab/core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace fedgrab::random_test {

// The known answers that Random123 ships for philox4x32-10; our key is k1:k0.
TEST(Permutation, StartsAsTheWholeDoes) {
  const Random random(5, Purpose::cohort, 0, 3);
  const auto whole = permutation(1000, random);
  for (const int64_t count : {0, 1, 17, 1000}) {
    const std::vector<int64_t> expected(whole.begin(), whole.begin() + count);
    EXPECT_EQ(permutation_start(1000, count, random), expected);
  }
}

TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, IsAFunctionOfItsCoordinates) {
  const auto first = [](uint64_t seed, Purpose purpose, uint32_t a, uint32_t b, uint32_t c) {
    return Random(seed, purpose, a, b, c).bits64();
  };
  EXPECT_EQ(first(1, Purpose::gate, 2, 3, 4), first(1, Purpose::gate, 2, 3, 4));
  const std::set<uint64_t> all{first(1, Purpose::gate, 2, 3, 4),  first(2, Purpose::gate, 2, 3, 4),
                               first(1, Purpose::noise, 2, 3, 4), first(1, Purpose::gate, 3, 3, 4),
                               first(1, Purpose::gate, 2, 4, 4),  first(1, Purpose::gate, 2, 3, 5),
                               first(1, Purpose::gate, 3, 2, 4),  first(0, Purpose::gate, 2, 3, 4)};
  EXPECT_EQ(all.size(), 8U);
}

TEST(Random, StreamsTheBlocksInOrder) {
  Random random(7, Purpose::shuffle, 1, 2, 3);
  const Random same(7, Purpose::shuffle, 1, 2, 3);
  for (uint32_t position = 0; position < 3; ++position)
    for (const uint32_t word : same.block(position)) EXPECT_EQ(random.bits(), word);
}

TEST(Random, RandomAccessDoesNotMoveTheStream) {
  Random a(7, Purpose::shuffle);
  Random b(7, Purpose::shuffle);
  a.block(5);
  EXPECT_EQ(a.bits(), b.bits());
}

struct Moments {
  double mean, variance, smallest, largest;
};
Moments moments(int draws, const std::function<double()>& draw) {
  std::vector<double> values(static_cast<size_t>(draws));
  std::generate(values.begin(), values.end(), draw);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / draws;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {mean, squares / draws, *low, *high};
}

constexpr int draws = 200000;  // the tolerances below are at least five standard errors

TEST(Random, UniformFillsTheUnitInterval) {
  Random random(1, Purpose::noise);
  const Moments m = moments(draws, [&] { return random.uniform(); });
  EXPECT_NEAR(m.mean, 0.5, 0.004);
  EXPECT_NEAR(m.variance, 1.0 / 12, 0.002);
  EXPECT_GE(m.smallest, 0.0);
  EXPECT_LT(m.largest, 1.0);
  EXPECT_LT(to_unit(0xffffffff), 1.0F);
  EXPECT_EQ(to_unit(0), 0.0F);
}

TEST(Random, NormalHasItsMoments) {
  Random random(2, Purpose::noise);
  const Moments m = moments(draws, [&] { return random.normal(); });
  EXPECT_NEAR(m.mean, 0.0, 0.012);
  EXPECT_NEAR(m.variance, 1.0, 0.02);
  EXPECT_LT(m.smallest, -3.5);
  EXPECT_GT(m.largest, 3.5);
}

class Gamma : public testing::TestWithParam<double> {};
TEST_P(Gamma, HasMeanAndVarianceOfItsShape) {
  const double shape = GetParam();
  Random random(3, Purpose::partition);
  const Moments m = moments(draws, [&] { return random.gamma(shape); });
  const double error_of_mean = std::sqrt(shape / draws);
  const double error_of_variance = std::sqrt((2 * shape * shape + 6 * shape) / draws);
  EXPECT_NEAR(m.mean, shape, 5 * error_of_mean);
  EXPECT_NEAR(m.variance, shape, 5 * error_of_variance);
  EXPECT_GE(m.smallest, 0.0);
}
INSTANTIATE_TEST_SUITE_P(Shapes, Gamma, testing::Values(0.1, 0.5, 1.0, 2.5, 100.0));

TEST(Random, BelowReachesEveryValueEvenly) {
  Random random(4, Purpose::cohort);
  std::vector<int> seen(7);
  for (int i = 0; i < 70000; ++i) ++seen.at(random.below(7));
  for (const int count : seen) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(random.below(1), 0U);
}

TEST(Permutation, HoldsEveryIndexOnce) {
  for (const int64_t n : {0, 1, 2, 5, 1000}) {
    auto order = permutation(n, Random(5, Purpose::shuffle));
    std::sort(order.begin(), order.end());
    ASSERT_EQ(static_cast<int64_t>(order.size()), n);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST(Permutation, PutsEachIndexEverywhere) {
  std::vector<std::vector<int>> seen(4, std::vector<int>(4));
  for (uint32_t round = 0; round < 8000; ++round) {
    const auto order = permutation(4, Random(6, Purpose::shuffle, 0, round));
    for (size_t place = 0; place < 4; ++place) ++seen[place][static_cast<size_t>(order[place])];
  }
  for (const auto& place : seen)
    for (const int count : place) EXPECT_NEAR(count, 2000, 220);
}

TEST(Permutation, DoesNotDependOnWhatTheStreamGaveBefore) {
  Random used(8, Purpose::shuffle);
  used.bits64();
  EXPECT_EQ(permutation(50, used), permutation(50, Random(8, Purpose::shuffle)));
}

}  // namespace fedgrab::random_test
