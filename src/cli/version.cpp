#include "fedgrab/core/version.h"

#include <fmt/format.h>

#include "commands.h"
#include "fedgrab/core/parallel.h"

namespace fedgrab::cli {
namespace {

std::string version_text() {
  return fmt::format("fedgrab {} ({})\n{}\ndevices: cpu, {} cores{}", version(), revision(), libtorch_text(),
                     available_cores(), gpu_text());
}

}  // namespace

std::string revision_text() { return fmt::format("fedgrab {} ({}), {}", version(), revision(), libtorch_text()); }

void add_version(CLI::App& app) {
  auto* command = app.add_subcommand("version", "Print version, revision, LibTorch and devices");
  command->callback([] { fmt::print("{}\n", version_text()); });
  app.set_version_flag("--version", version_text, "The same as `fedgrab version`");
}

}  // namespace fedgrab::cli
