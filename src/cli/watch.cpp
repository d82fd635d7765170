#include "fedgrab/report/watch.h"

#include <fmt/format.h>

#include <cstdio>

#include "commands.h"
#include "fedgrab/core/error.h"

namespace fedgrab::cli {
namespace {

void watch(const WatchOptions& options) {
  for (const auto& folder : options.folders)
    if (!std::filesystem::is_directory(folder)) throw Error(Fault::usage, folder.string(), "is not a folder");
  fedgrab::watch(options, [](const std::string& address) {
    fmt::print("{} (open it in a browser; Ctrl-C ends)\n", address);
    std::fflush(stdout);  // whoever started this waits for the address
  });
}

}  // namespace

void add_watch(CLI::App& app) {
  auto* command = app.add_subcommand("watch", "The page of `report`, live while runs train");
  auto options = std::make_shared<WatchOptions>();
  command->add_option("dirs", options->folders, "Run directories, or folders in which runs are or will be")
      ->type_name("DIR")
      ->required();
  command->add_option("--port", options->port, "0 takes any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--host", options->host, "Address to listen on; other than the default, others can read along")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command->callback([options] { watch(*options); });
}

}  // namespace fedgrab::cli
