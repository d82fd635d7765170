#include "fedgrab/core/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto redraw_interval = std::chrono::milliseconds(100);
constexpr auto line_interval = std::chrono::seconds(2);

/// Guards standard error, and what is known of it: threads report side by side.
std::mutex output_guard;
bool line_open = false;  // a progress line is on the screen without its line break

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string bar(double share) {
  constexpr int width = 20;
  const int filled = static_cast<int>(share * width);
  std::string text;
  for (int i = 0; i < width; ++i) text += i < filled ? "█" : "░";
  return text;
}

}  // namespace

std::string format_duration(double seconds) {
  const int64_t whole = std::lround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Progress::Progress(std::string label, int64_t total, int64_t done, bool quiet)
    : label_(std::move(label)),
      total_(total),
      start_(done),
      done_(done),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      began_(Clock::now()),
      shown_(began_) {}

Progress::~Progress() { finish(); }

void Progress::update(int64_t done, std::string_view detail) {
  done_ = done;
  detail_ = detail;
  if (quiet_) return;
  const bool last = done >= total_;
  const auto interval = terminal_ ? Clock::duration(redraw_interval) : Clock::duration(line_interval);
  if (drawn_ && !last && Clock::now() - shown_ < interval) return;
  shown_ = Clock::now();
  drawn_ = true;

  const double elapsed = since(began_);
  const auto advanced = done - start_;
  std::string time = format_duration(elapsed);
  if (!last && advanced > 0)
    time = format_duration(elapsed / static_cast<double>(advanced) * static_cast<double>(total_ - done)) + " left";
  const std::string text =
      fmt::format("{} {}/{}{}{} · {}", label_, done, total_, detail.empty() ? "" : " · ", detail, time);
  const std::lock_guard lock(output_guard);
  if (terminal_) {
    const double share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 1.0;
    fmt::print(stderr, "\r\033[K{} {}", bar(std::clamp(share, 0.0, 1.0)), text);
    std::fflush(stderr);
    line_open = true;
  } else {
    fmt::print(stderr, "{}\n", text);
  }
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  const std::lock_guard lock(output_guard);
  if (line_open) fmt::print(stderr, "\n");
  line_open = false;
}

void note(std::string_view message) {
  const std::string text = printable(message) + "\n";
  const std::lock_guard lock(output_guard);
  if (line_open) fmt::print(stderr, "\r\033[K");
  line_open = false;
  fmt::print(stderr, "{}", text);
}

void warn(std::string_view message) { note(fmt::format("fedgrab: warning: {}", message)); }

}  // namespace fedgrab
