#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "commands.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/report/run_table.h"

namespace fedgrab::cli {
namespace {

struct TableFlags {
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> measures;
  bool latex = false, markdown = false, csv = false;
};

std::vector<Measure> measures_named(const std::vector<std::string>& names) {
  std::vector<Measure> measures;
  for (const auto& name : names) measures.push_back(*enum_named<Measure>(name));  // CLI11 has checked them
  return measures;
}

void print(const TableFlags& flags) {
  const auto runs = read_runs(flags.folders);
  const auto unfinished =
      std::count_if(runs.begin(), runs.end(), [](const Run& run) { return run.state != RunState::finished; });
  if (unfinished > 0)
    warn(fmt::format("{} of {} runs {} not ended; the numbers are of those that have, but for rows with 0 of N",
                     unfinished, runs.size(), unfinished == 1 ? "has" : "have"));
  const auto measures = measures_named(flags.measures);
  fmt::print("{}", flags.latex      ? run_table(runs, measures).to_latex()
                   : flags.markdown ? run_table(runs, measures).to_markdown()
                   : flags.csv      ? run_numbers(runs, measures).to_csv()
                                    : run_table(runs, measures).to_text());
}

}  // namespace

void add_table(CLI::App& app) {
  auto* command = app.add_subcommand("table", "Print a table of runs: mean of the last ten evaluations, ± over seeds");
  auto flags = std::make_shared<TableFlags>();
  command->add_option("dirs", flags->folders, "Run directories, or folders of them")->type_name("DIR")->required();
  command
      ->add_option("--measures", flags->measures,
                   "Additional columns: " + fmt::format("{}", fmt::join(all_names<Measure>(), ",")))
      ->type_name("NAME,…")
      ->delimiter(',')
      ->check(CLI::IsMember(all_names<Measure>()));
  auto* form = command->add_option_group("form", "Output format (default: text)");
  form->add_flag("--latex", flags->latex, "LaTeX tabular, with booktabs");
  form->add_flag("--markdown", flags->markdown, "Markdown");
  form->add_flag("--csv", flags->csv, "CSV, with standard deviations in separate columns");
  form->require_option(0, 1);
  command->callback([flags] { print(*flags); });
}

}  // namespace fedgrab::cli
