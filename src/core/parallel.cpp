#include "fedgrab/core/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "fedgrab/core/interrupt.h"

namespace fedgrab {

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

void parallel_for(int64_t items, int workers, const std::function<void(int64_t, int)>& work) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_guard;
  const auto* stop = StopScope::current();
  const auto run = [&](int worker) {
    const StopScope scope(stop);
    for (int64_t item = next++; item < items; item = next++) {
      try {
        work(item, worker);
      } catch (...) {
        const std::lock_guard lock(failure_guard);
        if (!failure) failure = std::current_exception();
        next = items;
      }
    }
  };
  if (workers <= 1) {
    run(0);
  } else {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < static_cast<int>(std::min<int64_t>(workers, items)); ++worker)
      threads.emplace_back(run, worker);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fedgrab
