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
    fmt::print("{}\nOpen it in a browser. Ctrl-C ends.\n", address);  // no mark that is copied with the address
    std::fflush(stdout);                                              // whoever started this waits for the address
  });
}

}  // namespace

void add_watch(CLI::App& app) {
  auto* command = app.add_subcommand("watch", "Serve the page of `report`, updated while runs train");
  auto options = std::make_shared<WatchOptions>();
  command->add_option("dirs", options->folders, "Run directories, or folders that contain runs now or later")
      ->type_name("DIR")
      ->required();
  command->add_option("--port", options->port, "Port; 0: any free port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--host", options->host,
                   "Address to listen on; with any other than the default, other machines can read the page")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command->callback([options] { watch(*options); });
}

}  // namespace fedgrab::cli
