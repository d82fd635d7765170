#include "fedgrab/prior/prior.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fedgrab::prior_test {

void expect_values(const torch::Tensor& tensor, const std::vector<double>& expected) {
  ASSERT_EQ(tensor.numel(), static_cast<int64_t>(expected.size()));
  for (size_t j = 0; j < expected.size(); ++j)
    EXPECT_NEAR(tensor[static_cast<int64_t>(j)].item<double>(), expected[j], 1e-5) << "class " << j;
}

TEST(Prior, ReadsTheNormsOfTheRows) {
  const auto weights = torch::tensor({{3.0F, -4.0F}, {0.0F, 0.0F}, {5.0F, 12.0F}});  // norms 5, 0, 13
  expect_values(prior_from_weights(weights, PriorScale::share), {5.0 / 18, 0, 13.0 / 18});
  expect_values(prior_from_weights(weights, PriorScale::span), {0.1 + 0.9 * 5 / 13, 0.1, 1});
}

TEST(Prior, ScalesByHand) {
  const auto values = torch::tensor({4.0F, 2.0F, 1.0F, 1.0F});
  expect_values(scale_prior(values, PriorScale::share), {0.5, 0.25, 0.125, 0.125});
  expect_values(scale_prior(values, PriorScale::span, 0.1), {1, 0.4, 0.1, 0.1});
  expect_values(scale_prior(values, PriorScale::span, 0.4), {1, 0.6, 0.4, 0.4});
  expect_values(scale_prior(values, PriorScale::span, 0.0), {1, 1.0 / 3, 0, 0});
}

TEST(Prior, RankKeepsTheOrderAndForgetsTheSizes) {
  const auto profile = torch::pow(0.1, torch::arange(10, torch::kFloat) / 9);
  const auto order = torch::tensor({3, 1, 4, 0, 5, 9, 2, 6, 8, 7});
  EXPECT_TRUE(torch::allclose(scale_prior(profile.index_select(0, order).pow(0.2) + 5, PriorScale::rank),
                              profile.index_select(0, order)));
  expect_values(scale_prior(torch::tensor({7.0F, 1.0F, 4.0F}), PriorScale::rank, 0.04), {1, 0.04, 0.2});
  expect_values(scale_prior(torch::tensor({1.0F, 4.0F, 1.0F}), PriorScale::rank, 0.0001),
                {0.001, 1, 0.001});  // ranks 1 and 2
}

TEST(Prior, StalledIsThatOfThePublishedGate) {
  const auto given = torch::pow(0.1, torch::arange(10, torch::kDouble) / 9);
  const std::vector<double> published{1, .77, .64, .55, .48, .42, .38, .35, .32, .29};
  const auto chance = stalled_prior(given);
  for (size_t j = 0; j < published.size(); ++j)
    EXPECT_NEAR(chance[static_cast<int64_t>(j)].item<double>(), published[j], 0.005) << "class " << j;
  // by hand: the second class meets 0.8 or, after an exemption, 0.5
  expect_values(stalled_prior(torch::tensor({0.8F, 0.5F})), {0.8, 0.8 * 0.5 + 0.2 * 0.8});
  expect_values(stalled_prior(torch::full({1000}, 0.3F)), std::vector<double>(1000, 0.3));
}

TEST(Prior, OfEqualRowsIsUniformInEveryScale) {
  const auto rows = torch::tensor({0.1F, 0.7F, -0.3F}).repeat({5, 1});
  for (const auto scale : {PriorScale::share, PriorScale::span, PriorScale::rank}) {
    const auto prior = prior_from_weights(rows, scale);
    EXPECT_TRUE((prior == prior[0]).all().item<bool>()) << name_of(scale) << prior;
  }
  expect_values(prior_from_weights(rows, PriorScale::share), std::vector<double>(5, 0.2));
}

TEST(Prior, DoesNotBlowRoundingUpToAPrior) {
  // the same norm summed in another order differs in the last bit at most, which span must not stretch to [0.1, 1]
  expect_values(scale_prior(torch::tensor({1.0F, 1.0000001F, 0.9999999F}), PriorScale::span), {1, 1, 1});
  expect_values(scale_prior(torch::tensor({1.0F, 1.01F, 1.005F}), PriorScale::span), {0.1, 1, 0.55});
}

TEST(Prior, OfAZeroMatrixIsUniformAndFinite) {
  const auto rows = torch::zeros({4, 3});
  expect_values(prior_from_weights(rows, PriorScale::share), std::vector<double>(4, 0.25));
  expect_values(prior_from_weights(rows, PriorScale::span), std::vector<double>(4, 1));
}

TEST(Prior, StaysWithinZeroAndOne) {
  for (const auto scale : {PriorScale::share, PriorScale::span, PriorScale::rank}) {
    const auto prior = prior_from_weights(torch::randn({100, 16}), scale);
    EXPECT_GE(prior.min().item<double>(), 0) << name_of(scale);
    EXPECT_LE(prior.max().item<double>(), 1 + 1e-6) << name_of(scale);
  }
}

TEST(PriorScore, OfThePerfectPriorIsZeroAndOne) {
  const std::vector<int64_t> counts{50, 30, 15, 5};
  for (const auto& prior : {torch::tensor({0.5, 0.3, 0.15, 0.05}), torch::tensor({1.0, 0.6, 0.3, 0.1})}) {
    const auto score = score_prior(prior, counts, 2);  // scaling does not count: it is compared as a share
    EXPECT_NEAR(score.l2, 0, 1e-7);
    EXPECT_EQ(score.tail_hit, 1);
  }
}

TEST(PriorScore, ByHand) {
  const std::vector<int64_t> counts{50, 30, 15, 5};
  // shares .4 .1 .4 .1; the two rarest are 2 and 3, the two smallest are 1 and 3
  const auto score = score_prior(torch::tensor({4.0F, 1.0F, 4.0F, 1.0F}), counts, 2);
  EXPECT_NEAR(score.l2, std::sqrt(0.01 + 0.04 + 0.0625 + 0.0025), 1e-12);
  EXPECT_EQ(score.tail_hit, 0.5);
  // upside down: no hit at all
  EXPECT_EQ(score_prior(torch::tensor({1.0F, 2.0F, 3.0F, 4.0F}), counts, 2).tail_hit, 0);
}

TEST(PriorScore, GivesTiesToTheLaterClass) {
  const std::vector<int64_t> counts{50, 30, 10, 10};
  // a prior that knows nothing points at the end, as the truth's own tie does
  EXPECT_EQ(score_prior(torch::ones({4}), counts, 1).tail_hit, 1);
  EXPECT_EQ(score_prior(torch::ones({4}), counts, 2).tail_hit, 1);
  // class 2 is as rare as class 3, but k = 1 asks for the later one
  EXPECT_EQ(score_prior(torch::tensor({4.0F, 3.0F, 1.0F, 2.0F}), counts, 1).tail_hit, 0);
}

TEST(PriorScore, OfAnEmptyTailMissesNothing) {
  const std::vector<int64_t> counts{1, 1};
  const auto score = score_prior(torch::tensor({1.0F, 0.0F}), counts, 0);
  EXPECT_EQ(score.tail_hit, 1);
  EXPECT_NEAR(score.l2, std::sqrt(0.5), 1e-12);
}

}  // namespace fedgrab::prior_test
