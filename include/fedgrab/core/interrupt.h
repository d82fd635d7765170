/// SIGINT and SIGTERM as a flag that long loops look at; a second signal ends the process at once.
#pragma once

#include <atomic>

namespace fedgrab {

/// Thrown where a loop notices the flag; nothing half-done may survive it.
struct Interrupted {};

void catch_interrupts();
/// By a signal, or where this thread works under a StopScope, by its flag.
bool interrupted();
inline void throw_if_interrupted() {
  if (interrupted()) throw Interrupted{};
}

/// While it lives, what this thread does stops once `flag` is set, and so does what parallel_for does for it. For a
/// host program that looks after signals itself and may have several pieces of work at once.
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>* flag);
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;
  ~StopScope();
  /// The flag under which this thread works, or null.
  static const std::atomic<bool>* current();

 private:
  const std::atomic<bool>* outer_;
};

}  // namespace fedgrab
