#include <fmt/format.h>

#include "commands.h"
#include "fedgrab/core/file.h"
#include "fedgrab/report/figures.h"
#include "fedgrab/report/page.h"
#include "fedgrab/report/report_data.h"

namespace fedgrab::cli {
namespace {

struct ReportFlags {
  std::vector<std::filesystem::path> folders;
  std::string out, svg;
};

void write_page(const std::string& file, const std::vector<Run>& runs) {
  const std::string page = page_with(report_data(runs));
  write_atomically(file, page);
  fmt::print("{}: {} {}, {:.1f} MB; open it in a browser\n", file, runs.size(), runs.size() == 1 ? "run" : "runs",
             static_cast<double>(page.size()) / 1e6);
}

void write_figures(const std::filesystem::path& folder, const std::vector<Run>& runs) {
  make_folder(folder);
  const auto files = figures(runs);
  for (const auto& [name, svg] : files) write_atomically(folder / name, svg);
  fmt::print("{}: {} figures\n", folder.string(), files.size());
}

void report(const ReportFlags& flags) {
  const auto runs = read_runs(flags.folders);
  if (!flags.svg.empty()) write_figures(flags.svg, runs);
  if (flags.svg.empty() || !flags.out.empty()) write_page(flags.out.empty() ? "report.html" : flags.out, runs);
}

}  // namespace

void add_report(CLI::App& app) {
  auto* command = app.add_subcommand("report", "One page of charts from runs, to be opened in a browser, offline");
  auto flags = std::make_shared<ReportFlags>();
  command->add_option("dirs", flags->folders, "Run directories, or folders of them")->type_name("DIR")->required();
  command->add_option("-o,--out", flags->out, "Where the page goes (default: report.html)")->type_name("FILE");
  command->add_option("--svg", flags->svg, "Instead, or with -o besides: each chart as an SVG file in this folder")
      ->type_name("DIR");
  command->callback([flags] { report(*flags); });
}

}  // namespace fedgrab::cli
