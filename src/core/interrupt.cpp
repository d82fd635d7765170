#include "fedgrab/core/interrupt.h"

#include <csignal>

namespace fedgrab {
namespace {

volatile std::sig_atomic_t flag = 0;

void on_signal(int signal) {
  if (flag != 0) {  // the user insists
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  flag = 1;
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool interrupted() { return flag != 0; }

void set_interrupted(bool wanted) { flag = wanted ? 1 : 0; }

}  // namespace fedgrab
