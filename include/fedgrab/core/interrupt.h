/// SIGINT and SIGTERM as a flag that long loops look at; a second signal ends the process at once.
#pragma once

namespace fedgrab {

/// Thrown where a loop notices the flag; nothing half-done may survive it.
struct Interrupted {};

void catch_interrupts();
bool interrupted();
/// For a host program that looks after signals itself.
void set_interrupted(bool wanted);
inline void throw_if_interrupted() {
  if (interrupted()) throw Interrupted{};
}

}  // namespace fedgrab
