#include "fedgrab/core/interrupt.h"

#include <csignal>

namespace fedgrab {
namespace {

std::atomic<bool> signalled = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch it");
thread_local const std::atomic<bool>* stop_flag = nullptr;

void on_signal(int signal) {
  if (signalled.exchange(true)) {  // a second signal
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool interrupted() { return signalled || (stop_flag != nullptr && *stop_flag); }

StopScope::StopScope(const std::atomic<bool>* flag) : outer_(stop_flag) { stop_flag = flag; }
StopScope::~StopScope() { stop_flag = outer_; }
const std::atomic<bool>* StopScope::current() { return stop_flag; }

}  // namespace fedgrab
