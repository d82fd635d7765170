/// The page live: a small server that follows the runs in some folders.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace fedgrab {

struct WatchOptions {
  std::vector<std::filesystem::path> folders;
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any free one
};

/// Serves until interrupted and then throws Interrupted; `ready` is called with the address once it listens. It serves
/// two paths, the page and its data, and no files. Throws an Error where it cannot listen, or was built without a
/// server.
void watch(const WatchOptions& options, const std::function<void(const std::string& address)>& ready);

}  // namespace fedgrab
