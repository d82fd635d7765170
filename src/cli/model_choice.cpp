#include "model_choice.h"

#include <fmt/format.h>

#include "fedgrab/core/progress.h"

namespace fedgrab::cli {
namespace {

std::string describe(const ModelChoice& choice, const LoadedModel& loaded) {
  const RunDirectory run{choice.path};
  const std::string round = fmt::format("round {}", loaded.card.round);
  if (loaded.file == run.best()) return round + ", the best on the validation split; --last takes the last round";
  if (loaded.file == run.model()) return round + ", the last";
  return round + ", the newest checkpoint";
}

}  // namespace

std::optional<RunDirectory> run_of(const std::filesystem::path& path) {
  const auto given = path.lexically_normal();
  for (const auto& folder : {given, given.parent_path(), given.parent_path().parent_path()})
    if (const RunDirectory run{folder}; run.exists()) return run;
  return std::nullopt;
}

void add_last_flag(CLI::App& command, ModelChoice& choice) {
  command.add_flag("--last", choice.last,
                   "In a run directory, use the model of the last round instead of best.safetensors");
}

void note_model(const ModelChoice& choice, const LoadedModel& loaded) {
  if (std::filesystem::is_directory(choice.path))
    note(fmt::format("using {} ({})", loaded.file.string(), describe(choice, loaded)));
}

}  // namespace fedgrab::cli
