#include "live_report.h"

#include <fmt/format.h>

#include "fedgrab/core/error.h"
#include "fedgrab/report/report_data.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

/// Another text whenever a file of the run changed, or its process ended.
std::string look_of(const NamedDirectory& run) {
  std::string text =
      fmt::format("{}\n{}\n{}", run.name, run.directory.root.string(), static_cast<int>(state_of(run.directory)));
  for (const auto& file :
       {run.directory.config(), run.directory.metrics(), run.directory.classes(), run.directory.summary()}) {
    std::error_code missing;
    const auto time = fs::last_write_time(file, missing);
    text += missing ? "\n-" : fmt::format("\n{} {}", time.time_since_epoch().count(), fs::file_size(file, missing));
  }
  return text;
}

}  // namespace

std::shared_ptr<const LiveReport::Snapshot> LiveReport::now() {
  const std::lock_guard lock(guard_);
  const auto time = std::chrono::steady_clock::now();
  if (!snapshot_ || time - looked_ > std::chrono::seconds(1)) {
    refresh();
    looked_ = time;
  }
  return snapshot_;
}

void LiveReport::refresh() {
  std::map<std::string, Run> known;
  std::vector<Run> runs;
  std::vector<std::string> left_out;
  std::string looks;
  for (const auto& found : find_runs(folders_)) {
    const std::string look = look_of(found);
    looks += look;
    try {
      const auto old = known_.find(look);
      runs.push_back(old == known_.end() ? read_run(found) : old->second);
      known.emplace(look, runs.back());
    } catch (const std::exception& error) {  // deleted between two of its files, say: the next look tells
      left_out.emplace_back(error.what());
    }
  }
  const std::string version = fmt::format("\"{:016x}-{}\"", std::hash<std::string>{}(looks), runs.size());
  if (snapshot_ && snapshot_->version == version) return;
  known_ = std::move(known);
  Json json = report_data(runs);
  if (!left_out.empty()) json["left_out"] = left_out;
  snapshot_ =
      std::make_shared<const Snapshot>(Snapshot{version, json.dump(-1, ' ', false, Json::error_handler_t::replace)});
}

}  // namespace fedgrab
