/// Every parameter of a run, and the order in which they are set: default, preset of the method, file, flag.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fedgrab/core/parameters.h"
#include "fedgrab/data/load.h"
#include "fedgrab/data/longtail.h"
#include "fedgrab/data/partition.h"
#include "fedgrab/engine/engine_params.h"
#include "fedgrab/engine/train_params.h"
#include "fedgrab/model/architecture.h"
#include "fedgrab/record/path_keys.h"
#include "fedgrab/record/summary.h"

namespace fedgrab {

struct ModelParams {
  std::string name = "cnn";
  std::string init;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("name", name, "backbone").one_of(architecture_names());
    v.param("init", init,
            "safetensors file with initial weights; a head for another number of classes is initialised as without the "
            "file");
  }
};

enum class GroupRule { automatic, mass, counts, lists };
template <>
inline constexpr auto enum_names<GroupRule> = names("auto", "mass", "counts", "lists");

struct EvalParams {
  int64_t every = 1;
  GroupRule groups = GroupRule::automatic;
  std::vector<double> mass{0.75, 0.95};
  std::vector<int64_t> thresholds{100, 20};
  std::vector<int64_t> many, med, few;
  Criterion criterion = Criterion::balanced_accuracy;
  int64_t patience = 0;
  double specificity = 0.9;
  int64_t resamples = 1000;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("every", every, "rounds between evaluations; the last round is always evaluated").at_least(1);
    v.param(
        "groups", groups,
        "how classes are grouped into Many, Med and Few: by cumulative training mass, by counts, by the lists many, "
        "med, few; auto: mass for benchmarks with a cut tail, counts elsewhere");
    v.param("mass", mass, "groups = mass: cumulative training mass at which Many ends, and at which Med ends")
        .between(0, 1);
    v.param("thresholds", thresholds, "groups = counts: Many has more images than the first, Few fewer than the second")
        .at_least(0);
    v.param("many", many, "groups = lists: classes of Many").at_least(0);
    v.param("med", med, "groups = lists: classes of Med").at_least(0);
    v.param("few", few, "groups = lists: classes of Few").at_least(0);
    v.param(
        "criterion", criterion,
        "measure that selects the best round, on the validation split if there is one, else on the test set: accuracy "
        "over all images, macro F1, accuracy over the images of Few, or balanced accuracy, the mean over classes");
    v.param("patience", patience,
            "stop after this many evaluations without improvement of the criterion on the validation split (0: never); "
            "needs data.validation")
        .at_least(0);
    v.param("specificity", specificity, "specificity at which the sensitivity of each class is measured").between(0, 1);
    v.param("resamples", resamples,
            "bootstrap resamples of the test images for the 95 % intervals at the end of a run (0: no intervals)")
        .between(0, 100000);
  }
};

struct RecordParams {
  bool tensorboard = true;
  int64_t diagnostics_every = 1;
  bool prior = false;
  int64_t client_accuracy_every = 0;
  int64_t samples = 16;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("tensorboard", tensorboard, "write TensorBoard events to the run directory");
    v.param("diagnostics_every", diagnostics_every,
            "rounds between records of balancers and prior (0: never); above 1,000 classes at most every tenth round")
        .at_least(0);
    v.param("prior", prior,
            "record the class prior that DPA estimates from the classifier, also for methods that do not use a prior");
    v.param("client_accuracy_every", client_accuracy_every,
            "rounds between evaluations of every client's model after local training; the last round is always "
            "evaluated (0: never)")
        .at_least(0);
    v.param("samples", samples,
            "test images with predictions in samples.json of the run directory, the most confident errors first (0: "
            "none); `report` embeds them in its page")
        .between(0, 200);
  }
};

struct CheckpointParams {
  int64_t every = 10;
  double minutes = 5;
  int64_t keep = 2;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("every", every, "rounds between checkpoints (0: by time and at the end)").at_least(0);
    v.param("minutes", minutes,
            "minutes since the last checkpoint after which the end of a round writes another (0: never); results do "
            "not depend on it")
        .between(0, 1e6);
    v.param("keep", keep, "number of newest checkpoints that are kept").at_least(1);
  }
};

/// The typed form of a Config.
struct Settings {
  DataParams data;
  LongTailParams longtail;
  PartitionParams partition;
  ModelParams model;
  TrainParams train;
  EvalParams eval;
  RecordParams record;
  CheckpointParams checkpoint;
  EngineParams engine;
  std::string method;

  uint64_t seed() const { return static_cast<uint64_t>(train.seed); }
};

/// All groups, in the order of docs/parameters.md.
Schema full_schema();
Settings read_settings(const Config& config);

using Assignments = std::vector<std::pair<std::string, std::string>>;
/// Of texts "key=value".
Assignments assignments_of(const std::vector<std::string>& texts);

/// A configuration file, on disk or not yet.
struct TomlText {
  std::string name;  // its path
  std::string text;
};
TomlText read_toml(const std::filesystem::path& file);

/// Default < preset of the chosen method < file < flags.
Config resolve_config(const TomlText& file, const Assignments& flags);
Config resolve_config(const std::optional<std::filesystem::path>& file, const Assignments& flags);

/// Whether version 0.1 wrote this configuration of a run: it has every key of every method.
bool written_by_0_1(const std::vector<std::pair<std::string, Value>>& values);

/// What a configuration sets otherwise than its method's preset does.
std::vector<std::string> changed_from_preset(const Config& config);

/// For the record of a run: its reader may have another working directory.
Config with_absolute_paths(Config config);

/// The configuration of an interrupted run with the changes by a file and flags. Only parameters that leave the
/// finished rounds true may differ (rounds, engine, record, checkpoint); any other throws a usage Error.
Config resumed_config(const std::filesystem::path& saved, const std::optional<std::filesystem::path>& file,
                      const Assignments& flags);
/// The same where every value that is set in `asked_for` is asked for, values of a preset among them.
Config resumed_config(const std::filesystem::path& saved, const Config& asked_for);

}  // namespace fedgrab
