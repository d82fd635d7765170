/// The command line. Errors are one line on stderr; the exit code names the kind of error.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "commands.h"
#include "fedgrab/core/communicator.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/parameters.h"
#include "fedgrab/core/progress.h"
#include "mpi_session.h"

namespace fedgrab::cli {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Errors of all ranks are reported by the first.
int report(const Communicator& ranks, const std::string& message, int code) {
  if (ranks.first())
    note(fmt::format("fedgrab: error: {}", message));
  else if (!ranks.failed())
    note(fmt::format("fedgrab: rank {}: error: {}", ranks.rank(), message));
  return code;
}

void build(CLI::App& app, Communicator& ranks) {
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.footer(first_steps() + "\nErrors exit with 2 (usage), 3 (data), 4 (checkpoint), 130 (interrupted) or 1.");
  add_demo(app);
  add_run(app, ranks);
  add_sweep(app);
  add_reproduce(app);
  add_report(app);
  add_watch(app);
  add_table(app);
  add_eval(app);
  add_predict(app);
  add_export(app);
  add_init(app);
  add_data(app);
  add_bench(app);
  add_params(app);
  add_version(app);
  add_completion(app);
}

/// CLI11 would only say that a command is missing, or blame the words after a flag, too.
std::optional<Error> unknown_word(const CLI::App& command, const std::string& path) {
  std::vector<std::string> commands, flags;
  const auto add_flags = [&](const CLI::App* of) {
    for (const auto* option : of->get_options())
      for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  };
  add_flags(&command);
  for (const auto* inner : command.get_subcommands({}))  // a group of options is one without a name
    inner->get_name().empty() ? add_flags(inner) : commands.push_back(inner->get_name());
  const auto rest = command.remaining();
  const auto flag =
      std::find_if(rest.begin(), rest.end(), [](const std::string& word) { return word.starts_with('-'); });
  const auto unknown = [&](const std::string& word, const char* what, const std::string& near) {
    return Error(Fault::usage, word, what, near.empty() ? path + " --help" : fmt::format("did you mean {}?", near));
  };
  if (flag != rest.end()) return unknown(*flag, "unknown flag", nearest(flag->substr(0, flag->find('=')), flags));
  if (commands.empty() || rest.empty()) return std::nullopt;
  const std::string near = nearest(rest.front(), commands);
  return unknown(rest.front(), "unknown command", near.empty() ? "" : path + " " + near);
}

Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string path = "fedgrab";
  while (true) {
    if (const auto unknown = unknown_word(*command, path)) return *unknown;
    if (command->get_subcommands().empty()) break;
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  return {Fault::usage, "command line", first_line(error.what()), path + " --help"};
}

Error output_error() { return {Fault::other, "standard output", "cannot write all of it", "is the disk full?"}; }

int run(int argc, char** argv, Communicator& ranks) {
  if (ranks.size() > 1 && (argc < 2 || std::string(argv[1]) != "run"))
    ranks.collective(
        [] { throw Error(Fault::usage, "mpirun", "works with `fedgrab run` only", "mpirun -n R fedgrab run …"); });
  CLI::App app("Federated learning on long-tailed data.", "fedgrab");
  build(app, ranks);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) ranks.collective([&] { throw usage_error(app, error); });
    if (ranks.first()) app.exit(error);  // --help
  }
  // What was printed may still be in the buffer: that the disk is full shows only now.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw output_error();
  return 0;
}

int run_and_report(int argc, char** argv, Communicator& ranks) {
  try {
    return run(argc, argv, ranks);
  } catch (const Error& error) {
    return report(ranks, error.what(), error.exit_code());
  } catch (const Interrupted&) {
    return 130;
  } catch (const std::bad_alloc&) {
    return report(ranks, "memory: not enough of it (lower engine.workers or train.batch)", 1);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return report(ranks, output_error().what(), 1);
    return report(ranks, Error(Fault::other, "unexpected", first_line(error.what())).what(), 1);
  }
}

}  // namespace
}  // namespace fedgrab::cli

int main(int argc, char** argv) {
  using namespace fedgrab;  // NOLINT(google-build-using-namespace): the one function outside the namespace
  catch_interrupts();
  try {
    cli::MpiSession session;
    auto& ranks = session.communicator();
    const int code = cli::run_and_report(argc, argv, ranks);
    if (code != 0 && !ranks.failed()) session.abort(code);
    return code;
  } catch (const Error& error) {
    return cli::report(Communicator(), error.what(), error.exit_code());
  }
}
