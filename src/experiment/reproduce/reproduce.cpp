#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/nesting.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/experiment/preparation.h"
#include "reproduction_plan.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr double show_interval = 60;  // seconds

/// A run is shown where it is finished and was run with the requested settings; its rounds may differ, and are said.
void take_result(const Job& job, ShownCell& shown) {
  shown.summary.reset();
  if (!job.directory.finished() || !has_these_settings(job)) return;
  try {
    shown.summary = read_result(job);
  } catch (const Error&) {
    shown.state = "damaged";
  }
}

/// Whether a cell has a value of its own there, and the user another.
bool overrides_a_cell(const ReproductionPlan& p, const Config& ours, const std::string& key) {
  return std::any_of(p.shown.begin(), p.shown.end(), [&](const ShownCell& shown) {
    const auto own = shown.cell.value(key);
    if (!own) return false;
    Config papers = ours;
    papers.set(key, *own);
    return papers.get(key) != ours.get(key);
  });
}

/// What the user changed of the paper's settings.
Assignments changes(const ReproductionPlan& p, const ReproduceOptions& options) {
  const Config papers = resolve_config(p.file, {}), ours = resolve_config(p.file, options.flags);
  static const std::vector<std::string> harmless{"data.path", "engine.", "record.", "checkpoint."};
  std::set<std::string> asked;
  for (const auto& [key, value] : options.flags) asked.insert(ours.schema().find(key).key);
  Assignments changed;
  for (const auto& parameter : ours.schema().all()) {
    const std::string& key = parameter.key;
    const bool matters = key == "engine.precision" || std::none_of(harmless.begin(), harmless.end(),
                                                                   [&](const auto& h) { return key.starts_with(h); });
    if (matters && (ours.get(key) != papers.get(key) || (asked.contains(key) && overrides_a_cell(p, ours, key))))
      changed.emplace_back(key, to_text(ours.get(key)));
  }
  return changed;
}

bool papers_data(const Assignments& changed) {
  return std::none_of(changed.begin(), changed.end(), [](const auto& change) { return change.first == "data.name"; });
}

std::string remarks(const Reproduction& what, const ReproductionPlan& p, const ReproduceOptions& options) {
  std::string text;
  const auto changed = changes(p, options);
  if (!papers_data(changed)) text += "Not the paper's data. ";
  for (size_t i = 0; i < changed.size(); ++i)
    text += fmt::format("{}{} = {}{}", i == 0 ? "Changed from the paper's settings: " : ", ", changed[i].first,
                        changed[i].second, i + 1 == changed.size() ? ".\n" : "");
  if (!options.seeds.empty()) text += fmt::format("Seeds: {}.\n", fmt::join(options.seeds, ", "));
  if (!what.claim.empty()) text += fmt::format("The paper: {}\n", what.claim);
  if (!what.note.empty()) text += what.note + "\n";
  for (const auto& fault : p.missing) text += fmt::format("Needs data: {}\n", fault);
  if (what.view == View::partition) return text;
  const auto& columns = what.paper.columns;
  const bool accuracies = what.view != View::table || std::find(columns.begin(), columns.end(), "All") != columns.end();
  return text +
         (accuracies ? "Accuracies are means of the last ten evaluations, ± over seeds. " : "± is over seeds. ") +
         (what.view == View::table ? "– was not run; diff is ours minus the paper's.\n" : "– was not run.\n");
}

/// The first line that starts so, after its colon.
std::string line_in(const fs::path& file, const std::string& start) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(start))
      return line.substr(std::min(line.find_first_not_of(" \t", line.find(':') + 1), line.size()));
  return "";
}

std::string machine() {
  std::string text = fmt::format("{}, {} cores", line_in("/proc/cpuinfo", "model name"), available_cores());
  std::error_code none;
  for (const auto& gpu : fs::directory_iterator("/proc/driver/nvidia/gpus", none))
    text += ", " + line_in(gpu.path() / "information", "Model:");
  return text;
}

Json read_about(const fs::path& file) {
  if (!fs::exists(file)) return Json::object();
  try {
    const std::string text = read_text(file);
    return Json::parse(shallow_json(text, file.string()));
  } catch (const Json::exception&) {
    throw Error(Fault::data, file.string(), "is damaged", "delete it: it is written anew, without the commands so far");
  }
}

/// A folder may be filled by several commands: each run names the one that finished it.
void write_about(const fs::path& file, const Reproduction& what, const ReproductionPlan& p,
                 const ReproduceOptions& options) {
  const Json before = read_about(file);
  Json about{{"title", what.title}, {"runs", what.runs}, {"commands", before.value("commands", Json::array())}};
  auto& commands = about["commands"];
  const Json command{{"command", options.command}, {"revision", options.revision}, {"machine", machine()}};
  const auto note_command = [&] {
    if (commands.empty() || commands.back() != command) commands.push_back(command);
  };
  if (what.view == View::partition) note_command();  // no run could name it
  for (size_t i = 0; i < p.shown.size(); ++i) {
    const auto& [cell, directory, asked, state, summary] = p.shown[i];
    if (!summary) continue;
    const Json known = before.value("finished", Json::object()).value(cell.name, Json::object());
    const bool same = known.value("seconds", 0.0) == summary->at("seconds").get<double>();
    if (!same) note_command();
    about["finished"][cell.name] = {{"rounds", summary->at("rounds")},
                                    {"seed", std::get<int64_t>(p.jobs[i].config.get("train.seed"))},
                                    {"seconds", summary->at("seconds")},
                                    {"command", same ? known.at("command") : Json(commands.size() - 1)}};
  }
  write_atomically(file, about.dump(1) + "\n");
}

std::string show_partitions(const Reproduction& what, const ReproductionPlan& p, const fs::path& folder) {
  std::string text;
  for (size_t i = 0; i < p.jobs.size(); ++i) {
    const std::string& name = p.shown[i].cell.name;
    const auto label = what.labels.find(name);
    const std::string papers = label == what.labels.end() ? name : label->second;
    const std::string own = std::get<std::string>(p.jobs[i].config.get("data.name"));
    const std::string title =
        own == p.shown[i].cell.value("data.name").value_or(own) ? papers : own + " in place of " + papers;
    if (!p.shown[i].asked || !p.shown[i].state.empty()) {
      text += fmt::format("{}: {}\n", title, p.shown[i].asked ? p.shown[i].state : "–");
      continue;
    }
    const Settings settings = read_settings(p.jobs[i].config);
    const Preparation prepared = prepare(settings);
    const auto& data = prepared.data;
    const auto counts = partition_table(partition_samples(settings, prepared), data.train.labels, data.classes());
    write_atomically(folder / fmt::format("figure-{}.svg", name), partition_picture(counts, data.class_names, title));
    std::vector<Column> columns{{"client"}};
    for (const auto& each : data.class_names) columns.push_back({each});
    Table table(columns);
    for (size_t k = 0; k < counts.size(); ++k) {
      std::vector<std::string> row{fmt::format("{}", k)};
      for (const int64_t count : counts[k]) row.push_back(fmt::format("{}", count));
      table.add_row(row);
    }
    write_atomically(folder / fmt::format("figure-{}.csv", name), table.to_csv());
    text += fmt::format("{}: {} samples of {} classes over {} clients, figure-{}.svg\n", title, prepared.samples.size(),
                        data.classes(), counts.size(), name);
  }
  return text;
}

/// Writes everything that can be shown now, and gives back what is printed.
std::string show(const Reproduction& what, ReproductionPlan& p, const ReproduceOptions& options) {
  for (size_t i = 0; i < p.jobs.size(); ++i) take_result(p.jobs[i], p.shown[i]);
  const fs::path folder = options.out / what.name;
  make_folder(folder);
  if (what.view != View::partition) write_atomically(folder / "curves.csv", curves(p.shown).to_csv());
  write_about(folder / "about.json", what, p, options);
  const bool of_paper = papers_data(changes(p, options));
  const std::string heading = what.title + "\n\n", rest = "\n" + remarks(what, p, options);
  if (what.view == View::partition) return heading + show_partitions(what, p, folder) + rest;
  if (what.view == View::table) {
    const Table table = comparison(what, p.shown, p.paper_rounds, of_paper);
    write_atomically(folder / "table.csv", table.to_csv());
    write_atomically(folder / "table.md", "# " + heading + table.to_markdown() + rest);
    const Table part = comparison(what, p.shown, p.paper_rounds, of_paper, true);
    const size_t others = table.rows() - part.rows();
    return heading + part.to_text() +
           (others > 0 ? fmt::format("and {} rows neither asked for nor run, in table.md\n", others) : "") + rest;
  }
  const auto panels = figure_panels(what, p.shown);
  write_atomically(folder / "figure.svg", plot(what.title + (of_paper ? "" : " (not the paper's data)"), panels));
  write_atomically(folder / "figure.csv", plot_csv(panels));
  const Table table = figure_runs(what, p.shown, p.paper_rounds);
  write_atomically(folder / "figure.md", "# " + heading + "![](figure.svg)\n\n" + table.to_markdown() + rest);
  return heading + table.to_text() + rest;
}

}  // namespace

ReproduceResult reproduce(const Reproduction& what, const ReproduceOptions& options) {
  ReproductionPlan p = plan(what, options);
  if (!options.seeds.empty() && std::none_of(p.shown.begin(), p.shown.end(), [](const ShownCell& shown) {
        return shown.cell.value("train.seed").has_value();
      }))
    throw Error(Fault::usage, "--seeds", "nothing is repeated here", "--seed S sets the one seed");
  // What is there already can be shown without its data; settings that differ are refused before anything is written.
  std::vector<size_t> unfinished;
  std::vector<Job> to_train;
  for (size_t i = 0; i < p.jobs.size(); ++i) {
    if (!p.shown[i].asked || complete(p.jobs[i])) continue;
    unfinished.push_back(i);
    to_train.push_back(p.jobs[i]);
  }
  const auto faults = data_faults(to_train);
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i].empty()) continue;
    p.shown[unfinished[i]].state = "needs data";
    p.missing.insert(faults[i]);
  }
  std::vector<size_t> places;  // of those that can be run or shown, among all
  std::vector<Job> runnable;
  for (size_t i = 0; i < p.jobs.size(); ++i) {
    if (!p.shown[i].asked || !p.shown[i].state.empty()) continue;
    places.push_back(i);
    runnable.push_back(p.jobs[i]);
  }
  if (runnable.empty()) throw Error(Fault::data, what.name, *p.missing.begin(), "it needs " + what.needs);
  const fs::path folder = fs::path(p.file.name).parent_path();
  make_folder(folder);
  const FolderLock lock(folder);
  write_atomically(p.file.name, p.file.text);
  ReproduceResult result{.text = show(what, p, options)};
  if (what.view == View::partition) return result;
  Stopwatch since_shown;
  try {
    run_jobs(runnable, options.jobs, [&](size_t i, const std::string& error) {
      if (!error.empty()) {
        p.shown[places[i]].state = "failed";
        result.failed.push_back(fmt::format("{}: {}", runnable[i].name, error));
      }
      if (since_shown.elapsed() < show_interval) return;  // every curve is read anew
      show(what, p, options);
      since_shown.lap();
    });
  } catch (const Interrupted&) {
    show(what, p, options);
    throw;
  }
  result.text = show(what, p, options);
  return result;
}

}  // namespace fedgrab
