#include "fedgrab/experiment/sweep.h"

#include <fmt/format.h>

#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/child_process.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/progress.h"

namespace fedgrab::cli {
namespace {

struct SweepFlags {
  std::shared_ptr<ConfigFlags> config;
  std::string out;
  int64_t jobs = 1;
  bool quiet = false, dry_run = false;
};

void sweep(const SweepFlags& flags) {
  const std::filesystem::path file = flags.config->config_file();
  if (file.empty()) throw Error(Fault::usage, "sweep", "needs a file with a [sweep] table", "configs/all-methods.toml");
  const SweepOptions options{.file = file,
                             .out = flags.out.empty() ? "runs" / file.stem() : std::filesystem::path(flags.out),
                             .flags = flags.config->assignments(),
                             .jobs = {.at_once = flags.jobs, .program = own_program(), .quiet = flags.quiet}};
  if (flags.dry_run) {
    fmt::print("{}\nOne run at a time, by the runs in {} or a few steps timed now. Nothing was trained.\n",
               sweep_preview(options).to_text(), options.out.string());
    return;
  }
  try {
    const auto result = run_sweep(options);
    fmt::print(
        "{}\nMean of the last ten evaluations (of all, where there are fewer), ± over seeds. {}: table.md, table.csv, "
        "a folder per run\n",
        result.table.to_text(), options.out.string());
    if (!result.failed.empty())
      throw Error(Fault::other, "sweep", fmt::format("{} failed: {}", result.failed.size(), result.failed.front()));
  } catch (const Interrupted&) {
    note("interrupted; the same command continues from here");
    throw;
  }
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto* command = app.add_subcommand("sweep", "Train a grid of experiments (methods × seeds × …) and print a table");
  auto flags = std::make_shared<SweepFlags>();
  flags->config = add_config_flags(*command);
  command->add_option("--out", flags->out, "Folder for the runs (default: runs/NAME of the file)")->type_name("DIR");
  add_jobs_flag(*command, flags->jobs);
  command->add_flag("--dry-run", flags->dry_run,
                    "List the runs with their state and the remaining time, without training");
  command->add_flag("--quiet", flags->quiet, "Print no progress");
  command->footer(
      R"(The [sweep] table of the file defines the grid; each combination is a run:
  [sweep]
  method = ["fedavg", "fedgrab"]
  "train.seed" = [1, 2, 3]
After an interruption, the same command continues; finished runs are not repeated.)");
  command->callback([flags] { sweep(*flags); });
}

}  // namespace fedgrab::cli
