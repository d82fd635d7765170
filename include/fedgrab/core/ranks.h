/// The processes of one run: those that mpirun started, or this one alone. All of them go through the same calls in the
/// same order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fedgrab {

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const { return 0; }
  virtual int count() const { return 1; }
  bool first() const { return rank() == 0; }

  /// Sums over all ranks, in place; integers, so that no order leaves a trace.
  virtual void add_up(std::span<int64_t> /*values*/) {}
  /// What each rank gives, by rank, to all of them.
  virtual std::vector<std::string> exchange(const std::string& bytes) { return {bytes}; }

  /// Does the work. Where it fails on a rank it fails on all: with Interrupted if one was interrupted, else with the
  /// Error of the lowest rank that has one.
  void together(const std::function<void()>& work);
  /// True once that has failed: every rank knows, and none is waiting for another.
  bool failed_together() const { return failed_together_; }

 private:
  bool failed_together_ = false;
};

/// One process until another is set, which the command line does at its start.
Ranks& ranks();
void use_ranks(std::unique_ptr<Ranks> all);

}  // namespace fedgrab
