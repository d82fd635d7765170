/// The one way this project uses threads: many independent items, a few workers.
#pragma once

#include <cstdint>
#include <functional>

namespace fedgrab {

/// Cores this process may use.
int available_cores();

/// Calls work(item, worker) for item 0..items-1, each once, in order of start, on `workers` threads (the caller is not
/// one of them when workers > 1), under the caller's StopScope. The first exception stops the rest and is thrown here.
void parallel_for(int64_t items, int workers, const std::function<void(int64_t item, int worker)>& work);

}  // namespace fedgrab
