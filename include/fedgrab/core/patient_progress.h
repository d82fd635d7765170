/// Progress of work on many threads, shown only if the work takes more than a moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "fedgrab/core/progress.h"

namespace fedgrab {

class PatientProgress {
 public:
  PatientProgress(std::string label, int64_t total) : label_(std::move(label)), total_(total) {}

  void step() {
    const std::lock_guard lock(guard_);
    ++done_;
    if (!shown_ && std::chrono::steady_clock::now() - began_ > std::chrono::seconds(1))
      shown_.emplace(label_, total_, done_ - 1);
    if (shown_) shown_->update(done_);
  }

 private:
  const std::string label_;
  const int64_t total_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::mutex guard_;
  int64_t done_ = 0;
  std::optional<Progress> shown_;
};

}  // namespace fedgrab
