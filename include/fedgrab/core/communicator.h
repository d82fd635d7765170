/// The processes of one run: the ranks that an MPI launcher started, or this process alone. All of them make the same
/// calls in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fedgrab {

/// The base class is a process by itself.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool first() const { return rank() == 0; }

  /// Sums over all ranks, in place; of integers, so that they do not depend on the order.
  virtual void all_reduce(std::span<int64_t> /*values*/) {}
  /// The bytes of every rank, by rank.
  virtual std::vector<std::string> all_gather(const std::string& bytes) { return {bytes}; }

  /// Does the work. Where it fails on one rank it fails on all: with Interrupted if one was interrupted, else with the
  /// Error of the lowest rank that has one.
  void collective(const std::function<void()>& work);
  /// Whether a collective call has failed: then every rank knows, and none waits for another.
  bool failed() const { return failed_; }

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_ = 0, size_ = 1;
  bool failed_ = false;
};

}  // namespace fedgrab
