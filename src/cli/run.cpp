#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "accuracy_table.h"
#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/experiment/new_run_directory.h"
#include "fedgrab/experiment/round_loop.h"
#include "fedgrab/method/composition.h"
#include "fedgrab/method/presets.h"

namespace fedgrab::cli {
namespace {

struct RunFlags {
  std::shared_ptr<ConfigFlags> config;
  std::string out;
  bool resume = false, quiet = false;
};

template <class Choices>
void print_choices(const char* heading, const Choices& choices) {
  fmt::print("\n{}\n", heading);
  for (const auto& choice : choices) fmt::print("  {:18} {}\n", choice.name, choice.summary);
}

void print_methods() {
  std::string group;
  for (const auto& entry : presets()) {
    if (entry.group != group) fmt::print("{}{}\n", group.empty() ? "" : "\n", entry.group);
    group = entry.group;
    fmt::print("  {:18} {}\n", entry.name, entry.summary);
  }
  fmt::print(
      R"(
A method is a preset, a set of parameter values; `fedgrab params --method NAME` prints them. Parts can be combined:
  fedgrab run --method fedgrab --set server.optimizer=momentum posthoc.kind=tau-norm
)");
  print_choices("local losses (--objective NAME)", objectives());
  print_choices("class prior (--set prior.source=NAME)", class_priors());
  print_choices("client algorithm (--set client.algorithm=NAME)", client_algorithms());
  print_choices("aggregation (--set server.aggregator=NAME)", aggregators());
  print_choices("server optimiser (--set server.optimizer=NAME)", server_optimizers());
  print_choices("post-hoc classifier (--set posthoc.kind=NAME)", posthoc_classifiers());
}

bool asks_for_list(const ConfigFlags& flags) {
  for (const auto& [key, value] : flags.short_forms)
    if ((key == "method.name" || key == "objective.name") && value == "help") return true;
  return false;
}

void run(const RunFlags& flags, Communicator& ranks) {
  if (asks_for_list(*flags.config)) {
    if (ranks.first()) print_methods();
    return;
  }
  RunOptions options{.directory = {flags.out}, .resume = flags.resume, .quiet = flags.quiet};
  std::optional<Config> config;
  std::string root;
  ranks.collective([&] {
    const bool known = flags.resume && options.directory.exists();
    if (flags.resume && !known)
      throw Error(Fault::usage, flags.out, "holds no run to resume",
                  "check the name of the folder; without --resume a new run starts there");
    config = known ? flags.config->resume(options.directory) : flags.config->resolve();
    if (ranks.first()) root = known ? flags.out : new_run_directory(flags.out, read_settings(*config)).root.string();
  });
  options.directory.root = ranks.all_gather(root).front();
  options.quiet = options.quiet || !ranks.first();
  try {
    const Summary summary = run_experiment(*config, options, ranks);
    if (!ranks.first()) return;
    fmt::print("{}{}: model.safetensors{}, summary.json (next: fedgrab predict {} IMAGE)\n", summary_text(summary),
               options.directory.root.string(), summary.best_by_validation ? ", best.safetensors" : "",
               options.directory.root.string());
  } catch (const Interrupted&) {
    if (!ranks.first()) throw;
    note(options.directory.exists()
             ? fmt::format("interrupted; continue with: fedgrab run --resume --out {}", options.directory.root.string())
             : "interrupted before the run began; nothing was written");
    throw;
  }
}

}  // namespace

void add_run(CLI::App& app, Communicator& ranks) {
  auto* command = app.add_subcommand("run", "Train one experiment; without arguments: fedgrab+ on the built-in set");
  auto flags = std::make_shared<RunFlags>();
  flags->config = add_config_flags(*command);
  command->add_option("--out", flags->out, "Run directory (default: a new one under runs/)")->type_name("DIR");
  command->add_flag("--resume", flags->resume, "Continue the run in --out")->needs("--out");
  command->add_flag("--quiet", flags->quiet, "Print no progress");
  command->callback([flags, &ranks] { run(*flags, ranks); });
}

}  // namespace fedgrab::cli
