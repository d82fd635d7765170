#include "fedgrab/core/child_process.h"

#include <gtest/gtest.h>

#include <thread>

#include "fedgrab/core/file.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::child_process_test {

int wait_for(ChildProcess& child) {
  while (!child.exit_code()) std::this_thread::yield();
  return *child.exit_code();
}

TEST(ChildProcess, TellsHowItEndedAndKeepsItsErrors) {
  const ScratchFolder scratch;
  const auto log = scratch.path("log");
  ChildProcess child("/bin/sh", {"-c", "echo out; echo err >&2; exit 3"}, log);
  EXPECT_EQ(wait_for(child), 3);
  EXPECT_EQ(read_text(log), "err\n");
}

TEST(ChildProcess, EndsWhenAsked) {
  const ScratchFolder scratch;
  ChildProcess child("/bin/sh", {"-c", "while :; do :; done"}, scratch.path("log"));
  EXPECT_EQ(child.exit_code(), std::nullopt);
  child.ask_to_end();
  EXPECT_EQ(wait_for(child), 128 + 15);
}

TEST(ChildProcess, AProgramThatIsNotThere) {
  const ScratchFolder scratch;
  ChildProcess child(scratch.path("nothing"), {}, scratch.path("log"));
  EXPECT_EQ(wait_for(child), 127);
}

}  // namespace fedgrab::child_process_test
