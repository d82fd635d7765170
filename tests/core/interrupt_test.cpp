#include "fedgrab/core/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <latch>
#include <thread>

#include "fedgrab/core/parallel.h"

namespace fedgrab::interrupt_test {

TEST(StopScope, StopsItsOwnThreadAndNoOther) {
  std::atomic<bool> mine = false, others = false;
  std::latch both(2), stopped(1);
  std::jthread other([&] {
    const StopScope scope(&others);
    both.arrive_and_wait();
    stopped.wait();
    EXPECT_FALSE(interrupted());
  });
  const StopScope scope(&mine);
  both.arrive_and_wait();
  EXPECT_NO_THROW(throw_if_interrupted());
  mine = true;
  EXPECT_THROW(throw_if_interrupted(), Interrupted);
  stopped.count_down();
}

TEST(StopScope, EndsWithItsBlock) {
  std::atomic<bool> stop = true;
  {
    const StopScope scope(&stop);
    EXPECT_TRUE(interrupted());
    const std::atomic<bool> inner_stop = false;
    const StopScope inner(&inner_stop);
    EXPECT_FALSE(interrupted());
  }
  EXPECT_FALSE(interrupted());
}

TEST(StopScope, ReachesTheWorkersOfALoop) {
  std::atomic<bool> stop = false;
  const StopScope scope(&stop);
  std::atomic<int> done = 0;
  EXPECT_THROW(parallel_for(int64_t{1} << 40, 3,
                            [&](int64_t item, int) {
                              throw_if_interrupted();
                              ++done;
                              if (item == 100) stop = true;
                            }),
               Interrupted);
  EXPECT_GE(done, 1);
}

TEST(InterruptDeathTest, ASignalIsSeenByEveryThreadAndASecondOneEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::latch began(1);
        std::thread waiting([&] {
          began.count_down();
          while (!interrupted()) std::this_thread::yield();
        });
        began.wait();
        std::raise(SIGTERM);
        waiting.join();
        std::_Exit(interrupted() ? 130 : 1);
      },
      testing::ExitedWithCode(130), "");
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace fedgrab::interrupt_test
