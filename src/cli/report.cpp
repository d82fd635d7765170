#include <fmt/format.h>

#include "commands.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/report/page.h"
#include "fedgrab/report/report_data.h"

namespace fedgrab::cli {
namespace {

struct ReportFlags {
  std::vector<std::filesystem::path> folders;
  std::string out = "report.html";
  bool without_samples = false;
  std::string svg;  // of version 0.1
};

size_t images_in(const std::vector<Run>& runs) {
  size_t count = 0;
  for (const auto& run : runs) count += run.evaluation.samples.size();
  return count;
}

void report(const ReportFlags& flags) {
  if (!flags.svg.empty())
    throw Error(Fault::usage, "--svg", "was removed", "open the page: each chart of it is saved as SVG or PNG there");
  auto runs = read_runs(flags.folders);
  if (flags.without_samples)
    for (auto& run : runs) run.evaluation.samples.clear();
  const std::string page = page_with(report_data(runs));
  write_atomically(flags.out, page);
  const size_t images = images_in(runs);
  fmt::print("{}: {} {}, {:.1f} MB{}; open it in a browser\n", flags.out, runs.size(),
             runs.size() == 1 ? "run" : "runs", static_cast<double>(page.size()) / 1e6,
             images > 0 ? fmt::format(", with {} test images (--no-samples leaves them out)", images) : "");
}

}  // namespace

void add_report(CLI::App& app) {
  auto* command = app.add_subcommand("report", "Write an HTML page with charts of runs, for use without a network");
  auto flags = std::make_shared<ReportFlags>();
  command->add_option("dirs", flags->folders, "Run directories, or folders of them")->type_name("DIR")->required();
  command->add_option("-o,--out", flags->out, "HTML file to write")->type_name("FILE")->capture_default_str();
  command->add_flag("--no-samples", flags->without_samples, "Do not embed the test images of the runs");
  command->add_option("--svg", flags->svg)->group("");  // hidden
  command->callback([flags] { report(*flags); });
}

}  // namespace fedgrab::cli
