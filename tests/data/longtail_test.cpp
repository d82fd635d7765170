#include "fedgrab/data/longtail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "fedgrab/core/error.h"

namespace fedgrab::longtail_test {

using Counts = std::vector<int64_t>;

LongTailParams exponential(double factor) {
  LongTailParams params;
  params.kind = LongTailKind::exponential;
  params.factor = factor;
  return params;
}

std::vector<int32_t> interleaved(int64_t per_class, int32_t classes) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < per_class * classes; ++i) labels.push_back(static_cast<int32_t>(i % classes));
  return labels;
}

Counts counts_of(const Counts& chosen, const std::vector<int32_t>& labels, int64_t classes) {
  Counts counts(static_cast<size_t>(classes));
  for (const int64_t i : chosen) ++counts.at(static_cast<size_t>(labels.at(static_cast<size_t>(i))));
  return counts;
}

TEST(LongTailCounts, AreThoseOfThePaper) {
  const Counts counts = long_tail_counts(exponential(100), 5000, 10);
  EXPECT_EQ(counts, (Counts{5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50}));
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 12406);
}

TEST(LongTailCounts, MatchOtherKnownProfiles) {
  EXPECT_EQ(long_tail_counts(exponential(50), 300, 10), (Counts{300, 194, 125, 81, 52, 34, 22, 14, 9, 6}));
  EXPECT_EQ(long_tail_counts(exponential(1), 7, 3), (Counts{7, 7, 7}));
  EXPECT_EQ(long_tail_counts(exponential(100), 500, 100).back(), 5);
  EXPECT_EQ(long_tail_counts(exponential(100), 500, 1), Counts{500});
  EXPECT_EQ(long_tail_counts(exponential(1000), 5, 3), (Counts{5, 1, 1})) << "no class may vanish";
}

TEST(LongTailCounts, StepMakesTheLastClassesRare) {
  LongTailParams params = exponential(10);
  params.kind = LongTailKind::step;
  EXPECT_EQ(long_tail_counts(params, 100, 5), (Counts{100, 100, 10, 10, 10}));
  params.step_fraction = 0.2;
  EXPECT_EQ(long_tail_counts(params, 100, 5), (Counts{100, 100, 100, 100, 10}));
  params.step_fraction = 0;
  EXPECT_EQ(long_tail_counts(params, 100, 2), (Counts{100, 100}));
}

TEST(LongTail, KindAutoDependsOnTheDataSet) {
  const auto labels = interleaved(20, 3);
  LongTailParams params;
  params.factor = 10;
  EXPECT_EQ(counts_of(sample_long_tail(params, labels, 3, true, 1), labels, 3), (Counts{20, 6, 2}));
  EXPECT_EQ(sample_long_tail(params, labels, 3, false, 1).size(), labels.size());
  params.kind = LongTailKind::none;
  EXPECT_EQ(sample_long_tail(params, labels, 3, true, 1).size(), labels.size());
}

TEST(LongTail, ByFileTakesTheFirstOfEachClass) {
  const std::vector<int32_t> labels{1, 0, 1, 0, 0, 1, 0};
  LongTailParams params = exponential(4);
  params.order = LongTailOrder::file;
  EXPECT_EQ(sample_long_tail(params, labels, 2, true, 1), (Counts{0, 1, 3, 4, 6}));
  params.max = 2;
  params.factor = 2;
  EXPECT_EQ(sample_long_tail(params, labels, 2, true, 1), (Counts{0, 1, 3}));
}

TEST(LongTail, BySeedIsAscendingDistinctAndReproducible) {
  const auto labels = interleaved(100, 4);
  const auto chosen = sample_long_tail(exponential(10), labels, 4, true, 1);
  EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
  EXPECT_EQ(std::set<int64_t>(chosen.begin(), chosen.end()).size(), chosen.size());
  EXPECT_EQ(counts_of(chosen, labels, 4), (Counts{100, 46, 21, 10}));
  EXPECT_EQ(chosen, sample_long_tail(exponential(10), labels, 4, true, 1));
  EXPECT_NE(chosen, sample_long_tail(exponential(10), labels, 4, true, 2));
}

TEST(LongTail, SaysWhichClassIsTooSmall) {
  const std::vector<int32_t> labels{0, 0, 0, 0, 1};
  try {
    sample_long_tail(exponential(2), labels, 2, true, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::data);
    const std::string text = error.what();
    for (const char* part : {"class 1", "2 images", "only 1", "longtail.max", "longtail.factor"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace fedgrab::longtail_test
