#include <fmt/format.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "commands.h"
#include "fedgrab/core/parallel.h"

namespace fedgrab::cli {

void add_version(CLI::App& app) {
  auto* command = app.add_subcommand("version", "Version, revision, LibTorch, devices");
  command->callback([] {
    fmt::print("fedgrab {} ({})\nLibTorch {}\ndevices: cpu, {} cores{}\n", FEDGRAB_VERSION, FEDGRAB_REVISION, TORCH_VERSION,
               available_cores(), torch::cuda::is_available() ? fmt::format("; cuda, {} GPU", torch::cuda::device_count()) : "");
  });
}

}  // namespace fedgrab::cli
