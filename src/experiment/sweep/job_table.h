/// What the jobs are doing: a table redrawn in place on a terminal, plain lines otherwise.
#pragma once

#include <string>
#include <vector>

#include "fedgrab/core/live_text.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/experiment/jobs.h"

namespace fedgrab {

class JobTable {
 public:
  JobTable(const std::vector<Job>& jobs, const JobOptions& options);

  void started(size_t job);
  void ended(size_t job, const std::string& error);
  /// Looks at what the running jobs have recorded; twice a second on a terminal, else twice a minute.
  void refresh();

 private:
  enum class State { waiting, running, done, failed };
  struct Row {
    State state = State::waiting;
    int64_t round = 0, rounds = 0;
    std::string all = "–", few = "–";
    double round_seconds = 0;
  };
  void read(size_t job);
  void say(size_t job, const std::string& what);
  std::string table() const;
  std::string totals() const;
  double seconds_left(const Row& row) const;
  std::vector<size_t> rows_that_fit() const;

  const std::vector<Job>& jobs_;
  bool quiet_;
  int64_t at_once_;
  std::vector<Row> rows_;
  LiveText screen_;
  Stopwatch since_shown_;
};

}  // namespace fedgrab
