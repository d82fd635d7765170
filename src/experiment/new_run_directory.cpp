#include "fedgrab/experiment/new_run_directory.h"

#include <fmt/format.h>

#include "fedgrab/core/error.h"

namespace fedgrab {

RunDirectory new_run_directory(const std::string& wanted, const Settings& settings) {
  if (!wanted.empty()) {
    RunDirectory directory{wanted};
    if (directory.exists() && directory.checkpoint_rounds().empty() && directory.read_metrics().empty())
      throw Error(Fault::usage, wanted, "holds a run that has not finished a round",
                  "continue it unchanged with --resume, remove it to start over, or choose another --out");
    if (directory.exists())
      throw Error(Fault::usage, wanted, "holds a run already", "continue it with --resume, or choose another --out");
    return directory;
  }
  const std::string base = fmt::format("runs/{}-{}-seed{}", settings.method, settings.data.name, settings.train.seed);
  RunDirectory directory{base};
  for (int copy = 2; directory.exists(); ++copy) directory.root = fmt::format("{}-{}", base, copy);
  return directory;
}

}  // namespace fedgrab
