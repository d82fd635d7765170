#include "job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fedgrab/core/error.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/record/table.h"

namespace fedgrab {
namespace {

constexpr double line_interval = 30, redraw_interval = 0.5;  // seconds
constexpr size_t frame = 4;                                  // lines around the rows: header, rule, a space, the totals

}  // namespace

JobTable::JobTable(const std::vector<Job>& jobs, const JobOptions& options)
    : jobs_(jobs), quiet_(options.quiet), at_once_(options.at_once), rows_(jobs.size()), screen_(options.quiet) {
  for (size_t i = 0; i < jobs.size(); ++i) rows_[i].rounds = std::get<int64_t>(jobs[i].config.get("train.rounds"));
}

void JobTable::started(size_t job) {
  rows_[job].state = State::running;
  if (!screen_.visible()) say(job, jobs_[job].directory.exists() ? "goes on" : "started");
}

void JobTable::ended(size_t job, const std::string& error) {
  auto& row = rows_[job];
  const bool ran = row.state == State::running;
  read(job);
  row.state = error.empty() ? State::done : State::failed;
  if (!error.empty()) {
    screen_.erase();
    warn(fmt::format("{}: {}", jobs_[job].name, error));
  } else if (!screen_.visible()) {
    say(job, fmt::format("{} · All {} Few {}", ran ? "done" : "was done already", row.all, row.few));
  }
  screen_.show(table());
}

void JobTable::refresh() {
  if (quiet_ || since_shown_.elapsed() < (screen_.visible() ? redraw_interval : line_interval)) return;
  since_shown_.lap();
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].state != State::running) continue;
    read(i);
    if (!screen_.visible())
      say(i, fmt::format("round {}/{} · All {} Few {}", rows_[i].round, rows_[i].rounds, rows_[i].all, rows_[i].few));
  }
  if (!screen_.visible()) note(totals());
  screen_.show(table());
}

void JobTable::read(size_t job) {
  auto& row = rows_[job];
  std::optional<RoundRecord> record;
  try {
    record = jobs_[job].directory.last_round();
  } catch (const Error&) {  // the run itself says what is wrong with it
  }
  if (!record) return;
  row.round = record->round;
  row.round_seconds = record->seconds;
  if (!record->accuracy) return;
  row.all = fmt::format("{:.3f}", record->accuracy->all);
  if (record->accuracy->few) row.few = fmt::format("{:.3f}", *record->accuracy->few);
}

void JobTable::say(size_t job, const std::string& what) {
  if (!quiet_) note(fmt::format("[{}/{}] {}: {}", job + 1, jobs_.size(), jobs_[job].name, what));
}

double JobTable::seconds_left(const Row& row) const {
  return static_cast<double>(row.rounds - row.round) * row.round_seconds;
}

/// All of them, or else those that run and then the latest to change.
std::vector<size_t> JobTable::rows_that_fit() const {
  const size_t room = screen_.height() - std::min(screen_.height(), frame);
  std::vector<size_t> shown;
  for (size_t i = 0; i < rows_.size(); ++i) shown.push_back(i);
  if (shown.size() <= room) return shown;
  const auto rank = [&](size_t i) {
    return rows_[i].state == State::running ? 0 : rows_[i].state == State::failed ? 1 : 2;
  };
  const auto next = std::find_if(rows_.begin(), rows_.end(), [](const Row& r) { return r.state == State::waiting; });
  const auto border = static_cast<size_t>(next - rows_.begin());
  std::stable_sort(shown.begin(), shown.end(), [&](size_t a, size_t b) {
    const auto distance = [&](size_t i) { return i < border ? border - i : i - border; };
    return std::pair(rank(a), distance(a)) < std::pair(rank(b), distance(b));
  });
  shown.resize(room);
  std::sort(shown.begin(), shown.end());
  return shown;
}

std::string JobTable::table() const {
  static constexpr std::array names{"waiting", "running", "done", "failed"};
  Table table({{"run", Align::left}, {"", Align::left}, {"round"}, {"All"}, {"Few"}, {"left"}});
  for (const size_t i : rows_that_fit()) {
    const auto& row = rows_[i];
    const bool timed = row.state == State::running && row.round_seconds > 0;
    table.add_row({jobs_[i].name, names[static_cast<size_t>(row.state)], fmt::format("{}/{}", row.round, row.rounds),
                   row.all, row.few, timed ? format_duration(seconds_left(row)) : ""});
  }
  return table.to_text() + "\n" + totals() + "\n";
}

/// A run that has not begun is taken to be as long as those that have, on average.
std::string JobTable::totals() const {
  double left = 0, known = 0, whole = 0;
  int64_t done = 0, failed = 0, running = 0, waiting = 0;
  for (const auto& row : rows_) {
    done += row.state == State::done ? 1 : 0;
    failed += row.state == State::failed ? 1 : 0;
    running += row.state == State::running ? 1 : 0;
    waiting += row.state == State::waiting ? 1 : 0;
    if (row.state == State::running) left += seconds_left(row);
    if (row.round_seconds <= 0) continue;
    known += 1;
    whole += row.round_seconds * static_cast<double>(row.rounds);
  }
  if (known > 0) left += static_cast<double>(waiting) * whole / known;
  std::string text = fmt::format("{} of {} done, {} running", done, rows_.size(), running);
  if (failed > 0) text += fmt::format(", {} failed", failed);
  if (left > 0) text += fmt::format(", about {} left", format_duration(left / static_cast<double>(at_once_)));
  return text;
}

}  // namespace fedgrab
