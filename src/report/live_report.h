/// The data of the page while runs train, for many readers at once.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fedgrab/report/run.h"

namespace fedgrab {

class LiveReport {
 public:
  struct Snapshot {
    std::string version, json;
  };

  explicit LiveReport(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  /// At most a second old. A run that is deleted, or cannot be read just now, is left out, and named.
  std::shared_ptr<const Snapshot> now();

 private:
  void refresh();

  const std::vector<std::filesystem::path> folders_;
  std::mutex guard_;
  std::chrono::steady_clock::time_point looked_{};
  std::map<std::string, Run> known_;  // by what their files looked like when they were read
  std::shared_ptr<const Snapshot> snapshot_;
};

}  // namespace fedgrab
