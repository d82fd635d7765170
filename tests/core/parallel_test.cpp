#include "fedgrab/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace fedgrab::parallel_test {

class Workers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, Workers, testing::Values(1, 2, 3, 8));

TEST_P(Workers, RunEachItemOnce) {
  std::vector<std::atomic<int>> runs(1000);
  parallel_for(1000, GetParam(), [&](int64_t item, int) { ++runs[static_cast<size_t>(item)]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST_P(Workers, HaveNumbersThatAreNeverSharedAtOnce) {
  std::vector<std::atomic<bool>> busy(static_cast<size_t>(GetParam()));
  std::atomic<bool> clash = false;
  parallel_for(500, GetParam(), [&](int64_t, int worker) {
    if (busy.at(static_cast<size_t>(worker)).exchange(true)) clash = true;
    busy.at(static_cast<size_t>(worker)) = false;
  });
  EXPECT_FALSE(clash);
}

TEST_P(Workers, PassOnTheExceptionAndStop) {
  std::atomic<int64_t> last = 0;
  const auto work = [&](int64_t item, int) {
    int64_t seen = last;
    while (seen < item && !last.compare_exchange_weak(seen, item)) {
    }
    if (item == 3) throw std::runtime_error("item 3");
  };
  try {
    parallel_for(int64_t{1} << 40, GetParam(), work);  // never ends unless the failure stops it
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "item 3");
  }
  EXPECT_GE(last, 3);
}

TEST_P(Workers, DoNothingForNoItems) {
  parallel_for(0, GetParam(), [](int64_t, int) { FAIL(); });
}

TEST(ParallelFor, WithOneWorkerStaysOnTheCallingThreadInOrder) {
  std::vector<int64_t> order;
  const auto caller = std::this_thread::get_id();
  parallel_for(5, 1, [&](int64_t item, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(worker, 0);
    order.push_back(item);
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(ParallelFor, WorkersRunSideBySide) {
  // Each item waits for the other: on one thread this would never return.
  std::atomic<int> arrived = 0;
  parallel_for(2, 2, [&](int64_t, int) {
    ++arrived;
    arrived.notify_all();
    for (int seen = arrived; seen < 2; seen = arrived) arrived.wait(seen);
  });
  EXPECT_EQ(arrived, 2);
}

TEST(AvailableCores, AreAtLeastOne) { EXPECT_GE(available_cores(), 1); }

}  // namespace fedgrab::parallel_test
