#include "fedgrab/report/run.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

#include "fedgrab/core/error.h"
#include "fedgrab/experiment/summary.h"
#include "flat_toml.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr int deepest = 3;  // folders of sweeps of reproductions, and no walk through a whole disk

/// A run in progress holds a lock on its log. The kernel's list is read, because asking by a lock of our own could
/// make a run fail that starts at that moment.
bool is_being_written(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return false;
  const std::string inode = fmt::format(":{} ", status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);)
    if (line.find("FLOCK") != std::string::npos && line.find(inode) != std::string::npos) return true;
  return false;
}

void collect(const fs::path& folder, const std::string& name, int depth, std::vector<NamedDirectory>& found) {
  if (RunDirectory{folder}.exists()) return found.push_back({name, {folder}});
  if (depth == deepest) return;
  std::vector<fs::path> inner;
  std::error_code gone;  // a folder may be deleted while it is read
  for (auto entry = fs::directory_iterator(folder, gone); !gone && entry != fs::directory_iterator();
       entry.increment(gone))
    if (entry->is_directory(gone)) inner.push_back(entry->path());
  std::sort(inner.begin(), inner.end());
  for (const auto& path : inner) {
    const std::string own = path.filename().string();
    collect(path, depth == 0 ? own : name + "/" + own, depth + 1, found);
  }
}

}  // namespace

RunState state_of(const RunDirectory& directory) {
  if (directory.finished()) return RunState::finished;
  if (is_being_written(directory.metrics())) return RunState::running;
  return fs::exists(directory.metrics()) ? RunState::stopped : RunState::waiting;
}

std::optional<double> Run::seconds_left() const {
  if (state != RunState::running || records.empty()) return std::nullopt;
  const size_t recent = std::min<size_t>(records.size(), 10);
  const double seconds = std::accumulate(records.end() - static_cast<std::ptrdiff_t>(recent), records.end(), 0.0,
                                         [](double sum, const RoundRecord& r) { return sum + r.seconds; });
  return seconds / static_cast<double>(recent) * static_cast<double>(rounds - records.back().round);
}

std::vector<size_t> Run::classes_by_size() const {
  std::vector<size_t> order(population ? population->class_counts.size() : 0);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return population->class_counts[a] > population->class_counts[b]; });
  return order;
}

std::vector<NamedDirectory> find_runs(const std::vector<fs::path>& folders) {
  std::vector<NamedDirectory> found;
  for (const auto& folder : folders) {
    const fs::path plain = (folder / ".").lexically_normal().parent_path();  // no trailing slash
    const std::string name = plain.filename().string();
    collect(folder, name.empty() || name == "." ? fs::absolute(folder).filename().string() : name, 0, found);
  }
  std::multiset<std::string> names;
  for (const auto& run : found) names.insert(run.name);
  for (auto& run : found)
    if (names.count(run.name) > 1) run.name = run.directory.root.lexically_normal().string();
  return found;
}

Run read_run(const NamedDirectory& named) {
  const RunDirectory& directory = named.directory;
  Run run{.name = named.name, .state = state_of(directory), .config = read_flat_toml(directory.config())};
  run.records = directory.read_metrics();
  run.rounds = run.config.contains("train.rounds") ? std::stoll(run.config.at("train.rounds")) : 0;
  if (run.state == RunState::finished && !run.records.empty()) run.rounds = run.records.back().round;  // patience ended
  if (std::any_of(run.records.begin(), run.records.end(), [](const RoundRecord& r) { return r.accuracy.has_value(); }))
    run.summary =
        summarise(run.records, run.config.contains("eval.criterion") ? run.config.at("eval.criterion") : "all");
  run.population = directory.read_population();
  if (run.state != RunState::finished) return run;
  const Json summary = directory.read_summary();
  run.confusion = summary.value("confusion", run.confusion);
  if (summary.contains("peak_memory_bytes")) run.peak_memory_bytes = summary["peak_memory_bytes"].get<int64_t>();
  return run;
}

std::vector<Run> read_runs(const std::vector<fs::path>& folders) {
  std::vector<Run> runs;
  for (const auto& folder : folders)
    if (find_runs({folder}).empty())
      throw Error(Fault::data, folder.string(), fs::exists(folder) ? "holds no run" : "does not exist",
                  "give run directories, or a folder of them");
  for (const auto& run : find_runs(folders)) runs.push_back(read_run(run));
  return runs;
}

}  // namespace fedgrab
