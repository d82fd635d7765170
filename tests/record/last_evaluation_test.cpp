#include "fedgrab/record/last_evaluation.h"

#include <gtest/gtest.h>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::last_evaluation_test {

class LastEvaluationTest : public testing::Test {
 protected:
  ScratchFolder scratch_;
  RunDirectory directory_{scratch_.path()};
};

TEST(Base64, IsThatOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST_F(LastEvaluationTest, IsReadAsItWasWritten) {
  write_last_evaluation(directory_, {7, {{3, 1}, {0, 2}}, {{1, 0, 0.75, "Zm8="}}});
  const auto read = read_last_evaluation(directory_);
  EXPECT_EQ(read.round, 7);
  EXPECT_EQ(read.confusion, (std::vector<std::vector<int64_t>>{{3, 1}, {0, 2}}));
  ASSERT_EQ(read.samples.size(), 1U);
  EXPECT_EQ(read.samples[0].truth, 1);
  EXPECT_EQ(read.samples[0].answer, 0);
  EXPECT_DOUBLE_EQ(read.samples[0].confidence, 0.75);
  EXPECT_EQ(read.samples[0].png, "Zm8=");
}

TEST_F(LastEvaluationTest, OfARunThatWroteNoneIsEmpty) {
  const auto read = read_last_evaluation(directory_);
  EXPECT_EQ(read.round, 0);
  EXPECT_TRUE(read.confusion.empty() && read.samples.empty());
}

TEST_F(LastEvaluationTest, LeavesNoImagesOfAnEarlierRound) {
  write_last_evaluation(directory_, {1, {}, {{0, 0, 1, "Zm8="}}});
  write_last_evaluation(directory_, {2, {}, {}});
  EXPECT_FALSE(std::filesystem::exists(samples_file(directory_)));
}

TEST_F(LastEvaluationTest, RefusesWhatIsNoThumbnail) {
  for (const std::string& png : {std::string("\\\" onerror=x"), std::string(200'000, 'A')}) {
    write_atomically(samples_file(directory_),
                     R"({"round":1,"samples":[{"truth":0,"answer":0,"confidence":1,"png":")" + png + R"("}]})");
    EXPECT_THROW(read_last_evaluation(directory_), Error);
  }
}

}  // namespace fedgrab::last_evaluation_test
