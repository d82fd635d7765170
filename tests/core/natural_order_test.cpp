#include "fedgrab/core/natural_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace fedgrab::natural_order_test {

TEST(NaturalOrder, SortsNumbersInTextsByTheirValue) {
  const std::vector<std::string> sorted{"a",        "a-alpha0.05", "a-alpha0.1", "a-clients5", "a-clients10",
                                        "a-lr1e-3", "a-lr0.01",    "b2/seed9",   "b2/seed10",  "b10"};
  auto shuffled = sorted;
  std::reverse(shuffled.begin(), shuffled.end());
  std::sort(shuffled.begin(), shuffled.end(), natural_less);
  EXPECT_EQ(shuffled, sorted);
}

TEST(NaturalOrder, TellsApartWhatHasTheSameValue) {
  EXPECT_FALSE(natural_less("seed1", "seed1"));
  EXPECT_NE(natural_less("seed1", "seed1.0"), natural_less("seed1.0", "seed1"));
  EXPECT_TRUE(natural_less("seed", "seed1"));
}

}  // namespace fedgrab::natural_order_test
