#include "fedgrab/record/sustained.h"

#include <gtest/gtest.h>

namespace fedgrab::sustained_test {

using Values = std::vector<double>;

TEST(Sustained, IsTheLowerOfTwoInARow) {
  EXPECT_EQ(sustained(Values{1, 5, 2, 3, 4}), (Values{1, 2, 2, 3}));
  EXPECT_EQ(sustained(Values{4, 5}), (Values{4}));
  EXPECT_EQ(sustained(Values{4}), (Values{4}));
  EXPECT_EQ(sustained(Values{}), (Values{}));
}

}  // namespace fedgrab::sustained_test
