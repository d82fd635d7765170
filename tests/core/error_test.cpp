#include "fedgrab/core/error.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "fedgrab/core/progress.h"

namespace fedgrab::error_test {

TEST(ErrorLine, HoldsNoControlCharacters) {
  const Error error(Fault::data, "a\x1b[2J\x07.png",
                    "first\nsecond\r\ttab \x7f \xc2\x9b"
                    "2J",
                    "dög → \"x\"");
  EXPECT_STREQ(error.what(), "a\\x1b[2J\\x07.png: first second \\x09tab \\x7f \\x9b2J (dög → \"x\")");
  EXPECT_STREQ(Error(Fault::data, std::string("a\0b", 3), "c").what(), "a\\x00b: c");
}

TEST(ErrorLine, StaysAsItIsWhenMadeOfAnother) {
  const Error first(Fault::data, "\x1b", "why");
  EXPECT_STREQ(Error(Fault::data, "file", first.what()).what(), "file: \\x1b: why");
}

TEST(Note, HoldsNoControlCharactersButLineBreaks) {
  testing::internal::CaptureStderr();
  note("one\x1b[31m\ntwo");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\\x1b[31m\ntwo\n");
}

/// What ThreadSanitizer looks at.
TEST(Note, MayComeFromSeveralThreadsBesideAProgressLine) {
  testing::internal::CaptureStderr();
  {
    Progress progress("work", 1000);
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([] {
        for (int i = 0; i < 100; ++i) note("a whole line");
      });
    for (int i = 0; i < 1000; ++i) progress.update(i);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  size_t lines = 0;
  for (size_t at = text.find("a whole line\n"); at != std::string::npos; at = text.find("a whole line\n", at + 1))
    ++lines;
  EXPECT_EQ(lines, 400U);
}

}  // namespace fedgrab::error_test
