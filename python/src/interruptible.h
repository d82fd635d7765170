/// Calls that take long: other Python threads go on meanwhile, and Ctrl-C ends them.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "fedgrab/core/interrupt.h"

namespace fedgrab::python {

namespace py = pybind11;

/// Runs `work` without the GIL on a thread of its own, so that LibTorch's thread settings stay there, while this one
/// listens to signals; what a Python handler raises stops the work and is raised here.
template <class Work>
auto interruptible(Work work) {
  std::atomic<bool> stop = false;  // of this call alone: other threads may have work of their own
  auto result = std::async(std::launch::async, [&stop, work = std::move(work)]() mutable {
    const StopScope scope(&stop);
    return work();
  });
  const py::gil_scoped_release released;
  while (result.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() == 0) continue;
    py::error_already_set raised;
    {
      const py::gil_scoped_release waiting;
      stop = true;
      result.wait();
    }
    throw raised;
  }
  return result.get();
}

}  // namespace fedgrab::python
