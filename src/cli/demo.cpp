#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "accuracy_table.h"
#include "commands.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/experiment/round_loop.h"
#include "fedgrab/report/page.h"
#include "fedgrab/report/report_data.h"

namespace fedgrab::cli {
namespace {

const std::vector<std::pair<std::string, std::string>> contestants{{"fedavg", "FedAvg"}, {"fedgrab+", "fedgrab+"}};
constexpr int seeds = 3;

std::string fresh_folder(std::string base) {
  std::string name = base;
  for (int copy = 2; std::filesystem::exists(name); ++copy) name = fmt::format("{}-{}", base, copy);
  return name;
}

/// Names the page, or says why there is none. A missing page is no error.
std::string report_text(const std::filesystem::path& root) {
  try {
    const std::string page = page_with(report_data(read_runs({root})));
    write_atomically(root / "report.html", page);
    return fmt::format("Open {} in a browser to see them.", (root / "report.html").string());
  } catch (const Error& error) {
    return fmt::format("No page was written: {}.", error.what());
  }
}

void demo(const std::string& out) {
  const std::string root = fresh_folder(out);
  fmt::print(
      R"(Ten classes of drawn figures; the largest class has 50 times as many images as the smallest. A Dirichlet distribution
assigns the images to {} clients. Each method trains with {} seeds, on the same images in the same order.

)",
      resolve_config(std::nullopt, {}).read<PartitionParams>("partition").clients, seeds);
  std::fflush(stdout);  // before the progress, which goes to stderr
  Table table({{"method", Align::left}, {"All"}, {"Many"}, {"Med"}, {"Few"}});
  Summary last;
  for (const auto& [method, title] : contestants) {
    std::vector<std::vector<double>> groups(4);
    for (int seed = 1; seed <= seeds; ++seed) {
      const Config config =
          resolve_config(std::nullopt, {{"method.name", method}, {"train.seed", std::to_string(seed)}});
      last = run_experiment(config, {.directory = {fmt::format("{}/{}-seed{}", root, method, seed)},
                                     .label = fmt::format("{} seed {} round", title, seed)});
      const auto& a = last.mean_last_10;
      const double values[] = {a.all, a.many.value_or(0), a.med.value_or(0), a.few.value_or(0)};
      for (size_t g = 0; g < groups.size(); ++g) groups[g].push_back(values[g]);
    }
    std::vector<std::string> row{title};
    for (const auto& values : groups) row.push_back(mean_std(values));
    table.add_row(row);
  }
  fmt::print(
      R"(
{}
Test accuracy on all classes, and on common (Many), medium (Med) and rare (Few) classes; mean of the last ten rounds,
± over {} seeds.

{}
The runs are in {}. {}
)",
      table.to_text(), seeds, groups_text(last.groups, last.class_names), root, report_text(root));
}

}  // namespace

void add_demo(CLI::App& app) {
  auto* command = app.add_subcommand(
      "demo", "Compare FedAvg and fedgrab+ on the built-in long-tailed set; takes less than two minutes");
  auto out = std::make_shared<std::string>("runs/demo");
  command->add_option("--out", *out, "Folder for the runs")->type_name("DIR")->capture_default_str();
  command->callback([out] {
    try {
      demo(*out);
    } catch (const Interrupted&) {
      note("interrupted; start again with: fedgrab demo");
      throw;
    }
  });
}

}  // namespace fedgrab::cli
