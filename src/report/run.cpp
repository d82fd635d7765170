#include "fedgrab/report/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

#include "fedgrab/core/error.h"
#include "fedgrab/core/natural_order.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/record/json_integer.h"
#include "fedgrab/record/summary.h"
#include "flat_toml.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr int deepest = 3;  // folders of sweeps of reproductions, and no walk through a whole disk

/// "08:01", as the kernel's list of locks names the file system of a file. stat() names another device on btrfs and on
/// overlays. Empty where it cannot be found out.
std::string device_of(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_PATH | O_CLOEXEC);
  if (descriptor < 0) return {};
  std::ifstream about(fmt::format("/proc/self/fdinfo/{}", descriptor));
  std::string word, mount;
  while (about >> word)
    if (word == "mnt_id:") about >> mount;
  ::close(descriptor);
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string id, parent;
    unsigned major = 0, minor = 0;
    char colon = 0;
    if (fields >> id >> parent >> major >> colon >> minor && id == mount)
      return fmt::format("{:02x}:{:02x}", major, minor);
  }
  return {};
}

/// A run in progress holds a lock on its log. The kernel's list is read, because asking by a lock of our own could
/// make a run fail that starts at that moment.
bool is_being_written(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return false;
  const std::string device = device_of(file);
  const std::string inode = fmt::format("{}{}:{} ", device.empty() ? "" : " ", device, status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);)
    if (line.find("FLOCK") != std::string::npos && line.find(inode) != std::string::npos) return true;
  return false;
}

void collect(const fs::path& folder, const std::string& name, int depth, std::vector<NamedDirectory>& found) {
  std::error_code gone;  // a folder may be deleted while it is read, or not be ours to read
  if (fs::exists(RunDirectory{folder}.config(), gone)) return found.push_back({name, {folder}});
  if (depth == deepest) return;
  std::vector<fs::path> inner;
  for (auto entry = fs::directory_iterator(folder, gone); !gone && entry != fs::directory_iterator();
       entry.increment(gone))
    if (entry->is_directory(gone)) inner.push_back(entry->path());
  std::sort(inner.begin(), inner.end(), [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  for (const auto& path : inner) {
    const std::string own = path.filename().string();
    collect(path, depth == 0 ? own : name + "/" + own, depth + 1, found);
  }
}

/// A link to a pipe or a device would never end.
void check_files(const RunDirectory& directory) {
  for (const auto& file : {directory.config(), directory.metrics(), directory.classes(), directory.summary(),
                           evaluation_file(directory), samples_file(directory)})
    if (fs::exists(file) && !fs::is_regular_file(file)) throw Error(Fault::data, file.string(), "is not a file");
}

void expect(bool fits, const fs::path& file, const char* what) {
  if (!fits) throw Error(Fault::data, file.string(), what, "was it changed by hand?");
}

void check_population(const Population& population, const fs::path& file) {
  const auto classes = static_cast<int64_t>(population.class_names.size());
  const auto known = [classes](int64_t c) { return c >= 0 && c < classes; };
  expect(population.class_counts.size() == population.class_names.size(), file, "names and counts differ in number");
  for (const auto* group : {&population.groups.many, &population.groups.med, &population.groups.few})
    expect(std::all_of(group->begin(), group->end(), known), file, "a group names a class that does not exist");
  for (const auto& client : population.clients)
    for (const auto& [label, count] : client) expect(known(label), file, "a client holds a class that does not exist");
}

void check_records(const Run& run, const fs::path& file) {
  const size_t classes = run.population ? run.population->class_names.size() : 0;
  const std::map<std::string, PerClass>* first = nullptr;
  for (const auto& record : run.records) {
    const auto fits = [&](const std::vector<double>& values) {
      expect(values.empty() || !run.population || values.size() == classes, file,
             "has another number of classes than classes.json");
    };
    if (record.accuracy) fits(record.accuracy->per_class);
    if (record.prior) fits(record.prior->p);
    for (const auto& [name, values] : record.diagnostics) {
      fits(values.mean);
      expect(values.std.empty() || values.std.size() == values.mean.size(), file,
             "mean and deviation differ in number");
    }
    if (record.diagnostics.empty()) continue;
    if (first == nullptr) first = &record.diagnostics;
    const auto same = [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.std.empty() == b.second.std.empty();
    };
    expect(std::equal(first->begin(), first->end(), record.diagnostics.begin(), record.diagnostics.end(), same), file,
           "what is recorded of the balancers changes between rounds");
  }
}

void check_evaluation(const Run& run, const RunDirectory& directory) {
  const auto& [round, confusion, samples] = run.evaluation;
  const size_t classes = run.population ? run.population->class_names.size() : confusion.size();
  const auto known = [classes](int64_t c) { return c >= 0 && c < static_cast<int64_t>(classes); };
  expect(confusion.empty() ||
             (confusion.size() == classes &&
              std::all_of(confusion.begin(), confusion.end(), [&](const auto& row) { return row.size() == classes; })),
         run.state == RunState::finished ? directory.summary() : evaluation_file(directory),
         "its confusion matrix has another number of classes than classes.json");
  expect(std::all_of(samples.begin(), samples.end(),
                     [&](const SampleImage& sample) { return known(sample.truth) && known(sample.answer); }),
         samples_file(directory), "an image is of a class that does not exist");
}

int64_t rounds_wanted(const Run& run, const fs::path& file) {
  const auto found = run.config.find("train.rounds");
  if (found == run.config.end()) return 0;
  int64_t rounds = -1;
  const char* end = found->second.data() + found->second.size();
  const auto [rest, code] = std::from_chars(found->second.data(), end, rounds);
  expect(code == std::errc() && rest == end && rounds >= 0, file, "train.rounds is not a number of rounds");
  return rounds;
}

Criterion criterion_of(const std::map<std::string, std::string>& config) {
  const auto found = config.find("eval.criterion");
  return found == config.end() ? Criterion::all : enum_named<Criterion>(found->second).value_or(Criterion::all);
}

std::optional<std::set<std::string>> take_changed(std::map<std::string, std::string>& config) {
  const auto taken = config.extract("preset.changed");
  if (taken.empty()) return std::nullopt;
  std::set<std::string> changed;
  std::istringstream keys(taken.mapped());
  for (std::string key; std::getline(keys, key, ',');) changed.insert(key);
  return changed;
}

Run read_checked(const NamedDirectory& named) {
  const RunDirectory& directory = named.directory;
  check_files(directory);
  Run run{.name = named.name, .state = state_of(directory), .config = read_flat_toml(directory.config())};
  run.changed = take_changed(run.config);
  run.records = directory.read_metrics();
  run.rounds = rounds_wanted(run, directory.config());
  if (run.state == RunState::finished && !run.records.empty()) run.rounds = run.records.back().round;  // patience ended
  run.population = directory.read_population();
  if (run.population) check_population(*run.population, directory.classes());
  check_records(run, directory.metrics());
  if (std::any_of(run.records.begin(), run.records.end(), [](const RoundRecord& r) { return r.accuracy.has_value(); }))
    run.summary = summarise(run.records, criterion_of(run.config));
  run.evaluation = read_last_evaluation(directory);
  if (run.state != RunState::finished) {
    check_evaluation(run, directory);
    return run;
  }
  const Json summary = directory.read_summary();
  if (summary.contains("confusion")) {
    run.evaluation.confusion.clear();
    for (const Json& row : summary["confusion"]) run.evaluation.confusion.push_back(integers_from_json(row));
    run.evaluation.round = run.rounds;
  }
  run.measures = summary.value("measures", Json::object());
  check_evaluation(run, directory);
  if (summary.contains("peak_memory_bytes")) run.peak_memory_bytes = integer_from_json(summary["peak_memory_bytes"]);
  return run;
}

}  // namespace

RunState state_of(const RunDirectory& directory) {
  std::error_code gone;
  if (fs::exists(directory.summary(), gone)) return RunState::finished;
  if (is_being_written(directory.metrics())) return RunState::running;
  return fs::exists(directory.metrics(), gone) ? RunState::stopped : RunState::waiting;
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
  std::set<fs::path> seen;  // given twice, or reached through a link as well
  std::erase_if(found, [&](const NamedDirectory& run) {
    std::error_code gone;
    return !seen.insert(fs::weakly_canonical(run.directory.root, gone)).second;
  });
  std::multiset<std::string> names;
  for (const auto& run : found) names.insert(run.name);
  for (auto& run : found)
    if (names.count(run.name) > 1) run.name = run.directory.root.lexically_normal().string();
  return found;
}

Run read_run(const NamedDirectory& named) {
  try {
    return read_checked(named);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // of another type than it should be, say
    throw Error(Fault::data, named.directory.root.string(), error.what());
  }
}

std::vector<Run> read_runs(const std::vector<fs::path>& folders) {
  for (const auto& folder : folders)
    if (find_runs({folder}).empty())
      throw Error(Fault::data, folder.string(), fs::exists(folder) ? "holds no run" : "does not exist",
                  "give run directories, or a folder of them");
  std::vector<Run> runs;
  std::vector<Error> failures;
  for (const auto& run : find_runs(folders)) {
    try {
      runs.push_back(read_run(run));
    } catch (const Error& error) {
      failures.push_back(error);
    }
  }
  if (runs.empty()) throw failures.front();
  for (const auto& failure : failures) warn(fmt::format("left out: {}", failure.what()));
  return runs;
}

}  // namespace fedgrab
