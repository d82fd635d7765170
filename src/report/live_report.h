/// The data of the page while runs train, for many readers at once. A separate thread reads the disk on request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fedgrab/report/run.h"
#include "http.h"

namespace fedgrab {

class LiveReport {
 public:
  struct Snapshot {
    std::string version;
    std::shared_ptr<const HttpContent> json;
  };

  explicit LiveReport(std::vector<std::filesystem::path> folders);

  /// At most a second old; nothing while the disk is looked at. A run that is deleted, or cannot be read just now, is
  /// left out, and named.
  std::shared_ptr<const Snapshot> now();

 private:
  void look(const std::stop_token& ended);
  std::shared_ptr<const Snapshot> refreshed_or_excuse(const std::shared_ptr<const Snapshot>& before);
  std::shared_ptr<const Snapshot> refreshed(const std::shared_ptr<const Snapshot>& before);

  const std::vector<std::filesystem::path> folders_;
  std::map<std::string, Run> known_;  // by what their files looked like when they were read
  std::mutex guard_;                  // of what follows
  std::condition_variable_any asked_;
  bool wanted_ = false;
  std::chrono::steady_clock::time_point looked_{};
  std::shared_ptr<const Snapshot> snapshot_;
  std::jthread looker_;  // the last, so that it ends first
};

}  // namespace fedgrab
