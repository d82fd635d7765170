#include <fmt/format.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "commands.h"

namespace fedgrab::cli {

std::string libtorch_text() { return fmt::format("LibTorch {}", TORCH_VERSION); }

std::string gpu_text() {
  return torch::cuda::is_available() ? fmt::format("; cuda, {} GPU", torch::cuda::device_count()) : "";
}

std::string first_steps() { return "Start with `fedgrab demo`, then `fedgrab run --method help`."; }

}  // namespace fedgrab::cli
