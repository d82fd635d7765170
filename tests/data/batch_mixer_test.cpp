#include "fedgrab/data/batch_mixer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fedgrab::batch_mixer_test {

TEST(BetaQuantiles, OfAlphaOneAreUniform) {
  const auto quantiles = beta_quantiles(1, 10);
  for (size_t k = 0; k < 10; ++k) EXPECT_NEAR(quantiles[k], (static_cast<double>(k) + 0.5) / 10, 1e-10);
}

/// The C library's variable is seen by every thread, and workers compute their quantiles at the same time.
TEST(BetaQuantiles, WriteNothingThatThreadsShare) {
  signgam = 7;
  beta_quantiles(0.3, 10);
  EXPECT_EQ(signgam, 7);
}

/// Beta(1/2, 1/2) is the arcsine distribution: its quantiles are sin²(πp/2).
TEST(BetaQuantiles, OfAlphaOneHalfAreTheArcsineDistributions) {
  const auto quantiles = beta_quantiles(0.5, 1000);
  for (size_t k = 0; k < 1000; ++k) {
    const double root = std::sin(M_PI / 2 * (static_cast<double>(k) + 0.5) / 1000);
    EXPECT_NEAR(quantiles[k], root * root, 1e-9);
  }
}

/// Mean 1/2 and variance 1/(4(2α + 1)), for concentrated and for extreme shares.
TEST(BetaQuantiles, HaveMeanAndVarianceOfTheDistribution) {
  for (const double alpha : {0.05, 0.2, 0.8, 4.0, 100.0}) {
    const auto quantiles = beta_quantiles(alpha, MixTables::entries);
    ASSERT_TRUE(std::is_sorted(quantiles.begin(), quantiles.end()));
    double mean = 0, variance = 0;
    for (const double q : quantiles) mean += q / MixTables::entries;
    for (const double q : quantiles) variance += (q - mean) * (q - mean) / MixTables::entries;
    EXPECT_NEAR(mean, 0.5, 1e-9) << alpha;
    EXPECT_NEAR(variance * 4 * (2 * alpha + 1), 1, 2e-3) << alpha;
  }
}

constexpr ImageShape shape{2, 3, 4};

/// Image i holds 100 i, 100 i + 1, …
std::vector<float> images(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t at = 0; at < shape.size(); ++at) values.push_back(static_cast<float>(100 * i + at));
  return values;
}

TEST(MixBatch, BlendsEveryImageWithTheNextAndTheLastWithTheFirst) {
  const auto before = images(3);
  auto mixed = before;
  mix_batch({.share = 0.75F}, 3, shape, mixed.data());
  const auto size = static_cast<size_t>(shape.size());
  for (size_t i = 0; i < 3; ++i)
    for (size_t at = 0; at < size; ++at)
      EXPECT_EQ(mixed[i * size + at], 0.75F * before[i * size + at] + 0.25F * before[(i + 1) % 3 * size + at]);
}

TEST(MixBatch, PastesTheBoxOfTheNextImage) {
  const auto before = images(2);
  auto mixed = before;
  const Mix mix{.share = 0.5F, .cut = true, .top = 1, .left = 1, .bottom = 3, .right = 4};
  mix_batch(mix, 2, shape, mixed.data());
  size_t at = 0;
  for (size_t i = 0; i < 2; ++i)
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t y = 0; y < 3; ++y)
        for (int64_t x = 0; x < 4; ++x, ++at) {
          const bool other = y >= 1 && x >= 1;
          EXPECT_EQ(mixed[at], before[other ? (at + 24) % 48 : at]) << i << ", " << c << ", " << y << ", " << x;
        }
}

Random step(uint32_t number) { return Random(3, Purpose::mix, 1, 2, number); }

TEST(BatchMixer, LeavesASingleImageAlone) {
  const Mix mix = BatchMixer(1, 1).choose(step(0), 1, shape);
  EXPECT_EQ(mix.share, 1);
  auto one = images(1);
  mix_batch(mix, 1, shape, one.data());
  EXPECT_EQ(one, images(1));
}

TEST(BatchMixer, IsOffAtZero) {
  EXPECT_FALSE(BatchMixer(0, 0).on());
  EXPECT_EQ(BatchMixer(0, 0).choose(step(0), 8, shape).share, 1);
}

/// torchvision's rule: half sides ⌊√(1 − λ)/2 · side⌋ about a random pixel, cut off at the edges, and the share of the
/// pixels that are left.
TEST(BatchMixer, CutsTorchvisionsBox) {
  const BatchMixer mixer(0, 1);
  const ImageShape large{3, 32, 48};
  double mean = 0;
  for (uint32_t number = 0; number < 500; ++number) {
    const Mix mix = mixer.choose(step(number), 8, large);
    ASSERT_TRUE(mix.cut);
    const PhiloxBlock words = step(number).block(0);
    const double wanted = ((words[0] >> 20) + 0.5) / MixTables::entries;  // Beta(1, 1) is uniform
    const auto y = static_cast<int32_t>(words[2] % 32), x = static_cast<int32_t>(words[3] % 48);
    const double half = std::sqrt(1 - wanted) / 2;
    const auto half_height = static_cast<int32_t>(half * 32), half_width = static_cast<int32_t>(half * 48);
    EXPECT_EQ(mix.top, std::max(y - half_height, 0));
    EXPECT_EQ(mix.left, std::max(x - half_width, 0));
    EXPECT_EQ(mix.bottom, std::min(y + half_height, 32));
    EXPECT_EQ(mix.right, std::min(x + half_width, 48));
    EXPECT_FLOAT_EQ(mix.share,
                    1 - static_cast<float>((mix.bottom - mix.top) * (mix.right - mix.left)) / (32.0F * 48.0F));
    mean += mix.share / 500;
  }
  EXPECT_NEAR(mean, 0.65, 0.05);  // above 1/2: boxes are cut off at the edges
}

TEST(BatchMixer, ChoosesEitherOperationInHalfOfTheSteps) {
  const BatchMixer mixer(0.8, 1);
  int cuts = 0;
  for (uint32_t number = 0; number < 1000; ++number) cuts += mixer.choose(step(number), 8, shape).cut ? 1 : 0;
  EXPECT_NEAR(cuts, 500, 60);
}

}  // namespace fedgrab::batch_mixer_test
