#include <fmt/format.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "commands.h"
#include "fedgrab/core/parallel.h"

namespace fedgrab::cli {
namespace {

std::string version_text() {
  return fmt::format("fedgrab {} ({})\nLibTorch {}\ndevices: cpu, {} cores{}", FEDGRAB_VERSION, FEDGRAB_REVISION,
                     TORCH_VERSION, available_cores(),
                     torch::cuda::is_available() ? fmt::format("; cuda, {} GPU", torch::cuda::device_count()) : "");
}

}  // namespace

std::string revision_text() {
  return fmt::format("fedgrab {} ({}), LibTorch {}", FEDGRAB_VERSION, FEDGRAB_REVISION, TORCH_VERSION);
}

void add_version(CLI::App& app) {
  auto* command = app.add_subcommand("version", "Version, revision, LibTorch, devices");
  command->callback([] { fmt::print("{}\n", version_text()); });
  app.set_version_flag("--version", version_text, "The same as `fedgrab version`");
}

}  // namespace fedgrab::cli
