#include <fmt/format.h>

#include <cmath>

#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/child_process.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/experiment/reproduction.h"

namespace fedgrab::cli {
namespace {

struct ReproduceFlags {
  std::shared_ptr<ConfigFlags> config;
  std::string name, out = "runs/reproduce";
  std::vector<std::string> cells;
  std::vector<int64_t> seeds;
  int64_t jobs = 1;
  bool list = false, quiet = false;
};

/// As one would type it again.
std::string command_line(const CLI::App& command) {
  std::string text = "fedgrab " + command.get_name();
  for (const auto* option : command.get_options())
    for (const auto& value : option->reduced_results()) {
      if (option->get_name() == "--jobs" || option->get_name() == "--quiet") continue;  // they change no result
      const bool plain =
          value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=.,:/_+-") ==
          std::string::npos;
      const std::string word = plain ? value : "'" + value + "'";
      text += option->get_positional() ? " " + word : fmt::format(" {} {}", option->get_name(), word);
    }
  return text;
}

/// An estimate has two digits.
std::string rough_duration(double seconds) {
  for (const auto& [unit, length] : {std::pair("d", 86400.0), {"h", 3600.0}, {"min", 60.0}})
    if (seconds >= 2 * length) return fmt::format("{:.0f} {}", seconds / length, unit);
  return fmt::format("{:.0f} s", std::ceil(seconds));
}

void print_list(const std::vector<std::string>& names, const ReproduceOptions& options) {
  Table table({{"name", Align::left},
               {"what", Align::left},
               {"runs"},
               {"done"},
               {"time here"},
               {"", Align::left},
               {"needs", Align::left}});
  for (const auto& name : names) {
    const auto what = find_reproduction(name);
    const auto time = estimate(what, options);
    const std::string left = rough_duration(time.seconds);
    table.add_row({name, what.title.substr(what.title.find(": ") + 2), fmt::format("{}", time.runs),
                   fmt::format("{}", time.done), time.known ? left : left + " and more", time.measure, what.needs});
  }
  fmt::print(
      R"({}
Time for the remaining runs, one after the other. "timed": estimated from a few steps of FedAvg on this machine; other
methods may take longer. "by N runs": estimated from the rounds in {}. --cells, --seeds and --rounds select fewer runs.
)",
      table.to_text(), options.out.string());
}

void run(const ReproduceFlags& flags, const CLI::App& command) {
  // Not nested: GCC 12 destroys a nested aggregate twice when an initialiser after it throws.
  const JobOptions jobs{.at_once = flags.jobs, .program = own_program(), .quiet = flags.quiet};
  const ReproduceOptions options{.out = flags.out,
                                 .flags = flags.config->assignments(),
                                 .cells = flags.cells,
                                 .seeds = flags.seeds,
                                 .jobs = jobs,
                                 .command = command_line(command),
                                 .revision = revision_text()};
  if (flags.list) return print_list(flags.name.empty() ? reproduction_names() : std::vector{flags.name}, options);
  if (flags.name.empty())
    throw Error(Fault::usage, "reproduce", "no table or figure given", "`fedgrab reproduce --list` prints all");
  const auto what = find_reproduction(flags.name);
  try {
    const auto result = reproduce(what, options);
    fmt::print("{}\n{}/{}: the results{}\n", result.text, flags.out, what.name,
               what.view == View::partition ? "" : fmt::format("; {}/{}/runs: the runs", flags.out, what.runs));
    if (!result.failed.empty())
      throw Error(Fault::other, what.name, fmt::format("{} failed: {}", result.failed.size(), result.failed.front()));
  } catch (const Interrupted&) {
    note("interrupted; the same command continues from here");
    throw;
  }
}

}  // namespace

void add_reproduce(CLI::App& app) {
  auto* command =
      app.add_subcommand("reproduce", "Reproduce a table or figure of the paper, and compare with the paper's values");
  auto flags = std::make_shared<ReproduceFlags>();
  command->add_option("name", flags->name, "Table or figure, such as table1 or fig4b; --list prints all")
      ->type_name("NAME");
  command->add_flag("--list", flags->list,
                    "List tables and figures with the estimated time on this machine and the required data");
  command->add_option("--cells", flags->cells, "Only the runs that meet all conditions KEY=VALUE[,VALUE…]")
      ->type_name("KEY=VALUES");
  command->add_option("--seeds", flags->seeds, "Seeds to use instead of those of the reproduction")
      ->type_name("S[,S…]")
      ->delimiter(',');
  command->add_option("--out", flags->out, "Folder for runs and results; each reproduction has a subfolder")
      ->type_name("DIR")
      ->capture_default_str();
  add_jobs_flag(*command, flags->jobs);
  command->add_flag("--quiet", flags->quiet, "Print no progress");
  flags->config = add_setting_flags(*command);
  command->footer(
      R"(A trial without data: fedgrab reproduce fig4a --set data.name=shapes --model cnn --rounds 2
After an interruption, the same command continues; finished runs are not repeated.)");
  command->callback([flags, command] { run(*flags, *command); });
}

}  // namespace fedgrab::cli
