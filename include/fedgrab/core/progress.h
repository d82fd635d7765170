/// Progress of work that takes more than a moment: one redrawn line on a terminal, plain lines otherwise. Everything
/// goes to stderr, so that stdout stays for results.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace fedgrab {

/// "1:02:03", "4:05" or "7 s".
std::string format_duration(double seconds);

class Progress {
 public:
  /// `done` is where a resumed piece of work starts. `quiet` shows nothing.
  Progress(std::string label, int64_t total, int64_t done = 0, bool quiet = false);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// `detail` is free text after the counter; time left follows from the pace so far.
  void update(int64_t done, std::string_view detail = {});
  /// The finished or abandoned line stays on the screen.
  void finish();

 private:
  std::string label_;
  int64_t total_, start_, done_;
  std::string detail_;
  bool quiet_, terminal_, drawn_ = false, finished_ = false;
  std::chrono::steady_clock::time_point began_, shown_;
};

/// A message that does not collide with a progress line.
void note(std::string_view message);
void warn(std::string_view message);

}  // namespace fedgrab
