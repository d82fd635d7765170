/// Where the files of a run are, and reading them back.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/record/schema.h"

namespace fedgrab {

struct RunDirectory {
  std::filesystem::path root;

  std::filesystem::path config() const { return root / "config.toml"; }
  std::filesystem::path partition() const { return root / "partition.json"; }
  std::filesystem::path classes() const { return root / "classes.json"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path summary() const { return root / "summary.json"; }
  std::filesystem::path model() const { return root / "model.safetensors"; }
  /// Of the best round on the validation split; only where there is one.
  std::filesystem::path best() const { return root / "best.safetensors"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
  std::filesystem::path checkpoint(int64_t round) const;
  /// Client states on disk that belong to a checkpoint.
  static std::filesystem::path clients_of(std::filesystem::path checkpoint) {
    return checkpoint.replace_extension(".clients");
  }
  /// Where a rank writes its client states, for the first rank to put into a checkpoint.
  std::filesystem::path of_rank(int rank) const { return root / ("rank-" + std::to_string(rank) + ".safetensors"); }
  void remove_checkpoint(int64_t round) const;

  /// A run was started here.
  bool exists() const { return std::filesystem::exists(config()); }
  bool finished() const { return std::filesystem::exists(summary()); }
  /// Rounds that have a checkpoint, ascending.
  std::vector<int64_t> checkpoint_rounds() const;
  /// The complete lines of metrics.jsonl; a last, half-written one is left out.
  std::vector<RoundRecord> read_metrics() const;
  /// The last of them, however long the file is; of a run in progress, too.
  std::optional<RoundRecord> last_round() const;
  Json read_summary() const;
  /// Of a run from before classes.json, what its summary has.
  std::optional<Population> read_population() const;
};

}  // namespace fedgrab
