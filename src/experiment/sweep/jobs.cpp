#include "fedgrab/experiment/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <list>
#include <set>
#include <thread>

#include "fedgrab/core/child_process.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/experiment/round_loop.h"
#include "fedgrab/record/json_integer.h"
#include "job_table.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr auto poll_interval = std::chrono::milliseconds(100);
constexpr int interrupted_code = 130;

fs::path log_of(const Job& job) { return job.directory.root.string() + ".log"; }

/// The error line of the run, without the prefix of the program.
std::string last_line(const fs::path& log) {
  std::string text = read_text(log);
  text.erase(text.find_last_not_of('\n') + 1);
  text.erase(0, text.rfind('\n') + 1);
  static const std::string prefix = "fedgrab: error: ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

/// One job as a process of its own.
struct Worker {
  size_t job;
  ChildProcess process;
};

ChildProcess start(const Job& job, const JobOptions& options) {
  auto command = job.command;
  if (job.directory.exists()) command.emplace_back("--resume");
  if (options.at_once > 1) {
    const int64_t share = worker_threads(job.config.read<EngineParams>("engine")) / options.at_once;
    command.insert(command.end(), {"--set", fmt::format("engine.workers={}", std::max<int64_t>(share, 1))});
  }
  make_folder(log_of(job).parent_path());
  return {options.program, command, log_of(job)};
}

std::string failure(const Job& job, int code) {
  if (code == 0) return fs::remove(log_of(job)), "";
  const std::set<int> from_outside{interrupted_code, 128 + SIGINT, 128 + SIGTERM, 128 + SIGKILL};
  if (from_outside.contains(code))
    return fmt::format("its process was ended from outside ({}); the same command goes on from its last checkpoint",
                       code == interrupted_code ? "interrupted" : fmt::format("signal {}", code - 128));
  const std::string said = last_line(log_of(job));
  return fmt::format("{} ({})", said.empty() ? fmt::format("its process ended with {}", code) : said,
                     log_of(job).string());
}

class Workers {
 public:
  Workers(const std::vector<Job>& jobs, const JobOptions& options) : jobs_(jobs), options_(options) {}

  bool full() const { return static_cast<int64_t>(running_.size()) >= options_.at_once; }
  bool empty() const { return running_.empty(); }
  void start_job(size_t job) { running_.push_back({job, start(jobs_[job], options_)}); }
  void ask_to_end() const {
    for (const auto& worker : running_) worker.process.ask_to_end();
  }
  template <class Ended>
  void collect(Ended ended) {
    for (auto worker = running_.begin(); worker != running_.end();) {
      const auto code = worker->process.exit_code();
      const size_t job = worker->job;
      worker = code ? running_.erase(worker) : std::next(worker);
      if (code) ended(job, failure(jobs_[job], *code));
    }
  }

 private:
  const std::vector<Job>& jobs_;
  const JobOptions& options_;
  std::list<Worker> running_;
};

using Ended = std::function<void(size_t, const std::string&)>;

void run_in_processes(const std::vector<Job>& jobs, const std::vector<bool>& done, const JobOptions& options,
                      const Ended& ended) {
  JobTable table(jobs, options);
  const auto told = [&](size_t job, const std::string& error) {
    if (interrupted()) return;  // it has saved, and continues next time
    table.ended(job, error);
    ended(job, error);
  };
  Workers workers(jobs, options);
  size_t next = 0;
  while (next < jobs.size() || !workers.empty()) {
    if (interrupted()) break;
    if (next < jobs.size() && !workers.full()) {
      if (done[next]) {
        told(next, "");
      } else {
        workers.start_job(next);
        table.started(next);
      }
      ++next;
      continue;
    }
    table.refresh();
    std::this_thread::sleep_for(poll_interval);
    workers.collect(told);
  }
  if (!interrupted()) return;
  workers.ask_to_end();  // where the signal came to this process alone
  while (!workers.empty()) {
    workers.collect(told);
    std::this_thread::sleep_for(poll_interval);
  }
  throw Interrupted{};
}

void run_here(const std::vector<Job>& jobs, const std::vector<bool>& done, const JobOptions& options,
              const Ended& ended) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto& [name, config, directory, command] = jobs[i];
    std::string error;
    try {
      if (!done[i]) {
        const bool begun = directory.exists();
        run_experiment(begun ? resumed_config(directory.config(), config) : config,
                       {.directory = directory,
                        .resume = begun,
                        .quiet = options.quiet,
                        .label = fmt::format("[{}/{}] {} round", i + 1, jobs.size(), name)});
      }
    } catch (const Error& problem) {
      if (problem.fault() == Fault::usage) throw;  // every job would fail
      error = problem.what();
    }
    ended(i, error);
  }
}

}  // namespace

void check_settings(const Job& job) {
  Config asked = job.config;
  const std::set<std::string> free{"train.rounds", "data.path"};  // the same data may lie elsewhere
  for (const auto& parameter : asked.schema().all())              // a default is requested, too
    if (!free.contains(parameter.key)) asked.set(parameter.key, asked.get(parameter.key));
  for (const auto& key : free) asked.reset(key);
  resumed_config(job.directory.config(), asked);
}

bool has_these_settings(const Job& job) {
  if (!job.directory.exists()) return false;
  try {
    check_settings(job);
  } catch (const Error&) {
    return false;
  }
  return true;
}

Json read_result(const Job& job) {
  try {
    Json summary = job.directory.read_summary();
    // Readers of these do not check their types.
    integer_from_json(summary.at("rounds"));
    summary.at("seconds").get<double>();
    summary.at("mean_last_10");
    return summary;
  } catch (const std::exception&) {
    throw Error(Fault::data, job.directory.summary().string(), "is damaged",
                "without the file the run is made anew from its checkpoint");
  }
}

bool complete(const Job& job) {
  if (!job.directory.exists()) return false;
  check_settings(job);
  if (!job.directory.finished()) return false;
  const auto done = job.directory.last_round();
  const auto asked = std::get<int64_t>(job.config.get("train.rounds"));
  if (done && done->round > asked)
    throw Error(Fault::usage, job.directory.root.string(),
                fmt::format("has {} rounds already, {} are asked for", done->round, asked),
                "one table must not mix them: choose another --out");
  return resolve_config(job.directory.config(), {}).get("train.rounds") == job.config.get("train.rounds");
}

void run_jobs(const std::vector<Job>& jobs, const JobOptions& options, const Ended& ended) {
  std::vector<bool> done(jobs.size());  // all of them first: errors are reported before anything is trained
  std::transform(jobs.begin(), jobs.end(), done.begin(), complete);
  options.program.empty() ? run_here(jobs, done, options, ended) : run_in_processes(jobs, done, options, ended);
}

}  // namespace fedgrab
