#include "live_report.h"

#include <fmt/format.h>

#include "fedgrab/core/error.h"
#include "fedgrab/report/report_data.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr int fast_compression = 1;  // the data changes every second or so

/// Another text whenever a file of the run changed, or its process ended.
std::string look_of(const NamedDirectory& run) {
  std::string text =
      fmt::format("{}\n{}\n{}", run.name, run.directory.root.string(), static_cast<int>(state_of(run.directory)));
  const auto& directory = run.directory;
  for (const auto& file : {directory.config(), directory.metrics(), directory.classes(), directory.summary(),
                           evaluation_file(directory), samples_file(directory)}) {
    std::error_code missing;
    const auto time = fs::last_write_time(file, missing);
    text += missing ? "\n-" : fmt::format("\n{} {}", time.time_since_epoch().count(), fs::file_size(file, missing));
  }
  return text;
}

std::string version_of(const std::string& looks, size_t runs) {
  return fmt::format("\"{:016x}-{}\"", std::hash<std::string>{}(looks), runs);
}

std::shared_ptr<const LiveReport::Snapshot> snapshot_of(const std::string& version, const Json& json) {
  return std::make_shared<const LiveReport::Snapshot>(LiveReport::Snapshot{
      version, make_content(json.dump(-1, ' ', false, Json::error_handler_t::replace), fast_compression)});
}

}  // namespace

LiveReport::LiveReport(std::vector<fs::path> folders)
    : folders_(std::move(folders)), looker_([this](const std::stop_token& ended) { look(ended); }) {}

std::shared_ptr<const LiveReport::Snapshot> LiveReport::now() {
  const std::lock_guard lock(guard_);
  if (snapshot_ && std::chrono::steady_clock::now() - looked_ <= std::chrono::seconds(1)) return snapshot_;
  wanted_ = true;
  asked_.notify_one();
  return nullptr;
}

void LiveReport::look(const std::stop_token& ended) {
  std::unique_lock lock(guard_);
  while (asked_.wait(lock, ended, [&] { return wanted_; })) {
    const auto before = snapshot_;
    lock.unlock();
    auto after = refreshed_or_excuse(before);
    lock.lock();
    snapshot_ = std::move(after);
    looked_ = std::chrono::steady_clock::now();
    wanted_ = false;
  }
}

/// The server continues whatever is wrong with the runs.
std::shared_ptr<const LiveReport::Snapshot> LiveReport::refreshed_or_excuse(
    const std::shared_ptr<const Snapshot>& before) {
  try {
    return refreshed(before);
  } catch (const std::exception& error) {
    const Json json{{"runs", Json::array()}, {"left_out", Json::array({error.what()})}};
    return snapshot_of(version_of(error.what(), 0), json);
  }
}

std::shared_ptr<const LiveReport::Snapshot> LiveReport::refreshed(const std::shared_ptr<const Snapshot>& before) {
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
  const std::string version = version_of(looks, runs.size());
  if (before && before->version == version) return before;
  known_ = std::move(known);
  Json json = report_data(runs);
  if (!left_out.empty()) json["left_out"] = left_out;
  return snapshot_of(version, json);
}

}  // namespace fedgrab
