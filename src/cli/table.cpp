#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/report/run_table.h"

namespace fedgrab::cli {
namespace {

struct TableFlags {
  std::vector<std::filesystem::path> folders;
  bool latex = false, markdown = false, csv = false;
};

void print(const TableFlags& flags) {
  const auto runs = read_runs(flags.folders);
  const auto unfinished =
      std::count_if(runs.begin(), runs.end(), [](const Run& run) { return run.state != RunState::finished; });
  if (unfinished > 0)
    warn(fmt::format("{} of {} runs {} not ended; the numbers are of those that have, but for rows with 0 of N",
                     unfinished, runs.size(), unfinished == 1 ? "has" : "have"));
  fmt::print("{}", flags.latex      ? run_table(runs).to_latex()
                   : flags.markdown ? run_table(runs).to_markdown()
                   : flags.csv      ? run_numbers(runs).to_csv()
                                    : run_table(runs).to_text());
}

}  // namespace

void add_table(CLI::App& app) {
  auto* command =
      app.add_subcommand("table", "A table of runs for a paper: mean of the last ten evaluations, ± over seeds");
  auto flags = std::make_shared<TableFlags>();
  command->add_option("dirs", flags->folders, "Run directories, or folders of them")->type_name("DIR")->required();
  auto* form = command->add_option_group("form", "Text for a terminal, or");
  form->add_flag("--latex", flags->latex, "A tabular with the rules of booktabs");
  form->add_flag("--markdown", flags->markdown, "As GitHub renders it");
  form->add_flag("--csv", flags->csv, "For a spreadsheet: deviations in columns of their own");
  form->require_option(0, 1);
  command->callback([flags] { print(*flags); });
}

}  // namespace fedgrab::cli
