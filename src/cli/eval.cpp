#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "accuracy_table.h"
#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/evaluation.h"
#include "measure_table.h"
#include "model_data.h"

namespace fedgrab::cli {
namespace {

const std::vector<std::string> splits{"test", "validation"};

struct EvalFlags {
  ModelChoice model;
  std::string split = splits.front();
  std::vector<std::string> set, posthoc;
  bool json = false;
};

/// --set takes every word up to the next flag: `--set data.path=x runs/mine --json` means the run.
void find_model(EvalFlags& flags) {
  const auto word = std::find_if(flags.set.begin(), flags.set.end(),
                                 [](const std::string& text) { return text.find('=') == std::string::npos; });
  if (flags.model.path.empty() && word != flags.set.end()) {
    flags.model.path = *word;
    flags.set.erase(word);
  }
  if (flags.model.path.empty()) throw Error(Fault::usage, "command line", "model is required", "fedgrab eval --help");
}

struct Evaluation {
  LoadedModel model;
  PosthocRecord posthoc;
  Predictions predictions;
  Accuracy accuracy;
  MeasureReport measures;
};

/// The images to evaluate on.
const Split& images_of(const EvalFlags& flags, const Preparation& prepared) {
  if (flags.split == splits.front()) return prepared.data.test;
  if (prepared.validation.count() == 0)
    throw Error(Fault::usage, "--split", "the run has no validation split", "it is made by data.validation");
  return prepared.validation;
}

Evaluation evaluate_as(const EvalFlags& flags, const Assignments& changes, const Preparation& prepared) {
  const LoadedModel loaded = redeploy(flags.model.path, changes, &prepared, flags.model.which());
  const Config config = resolve_config({flags.model.path, loaded.card.config}, changes);
  const Settings settings = read_settings(config);
  const Partition nobody;
  const Federation federation{prepared.data, nobody, loaded.state.model, settings.train};
  const Split& images = images_of(flags, prepared);
  const int64_t classes = prepared.data.classes();
  const auto engine = make_engine(settings.engine, federation);
  Evaluation evaluation{
      loaded, loaded.posthoc, engine->predict(loaded.state, images, measures_probabilities(images, classes)), {}, {}};
  evaluation.posthoc.kind = std::get<std::string>(config.get("posthoc.kind"));
  evaluation.accuracy = score(evaluation.predictions.classes, images.labels, prepared.groups, classes);
  evaluation.measures = measures_with_intervals(
      outputs_of(evaluation.predictions, images, classes), settings.eval.specificity,
      {.resamples = settings.eval.resamples, .seed = settings.seed(), .workers = available_cores()});
  return evaluation;
}

std::vector<std::string> cells_of(const Evaluation& evaluation) {
  auto cells = accuracy_cells(evaluation.accuracy);
  cells.insert(cells.begin(), posthoc_text(evaluation.posthoc));
  cells.push_back(percent(evaluation.accuracy.f1));
  cells.push_back(fmt::format("{:.4f}", evaluation.predictions.loss()));
  return cells;
}

/// Accuracy, and what the measures say of each class against the rest.
Table class_table(const Evaluation& evaluation, const std::vector<std::string>& names,
                  const std::vector<int64_t>& counts) {
  const MeasureReport& measures = evaluation.measures;
  std::vector<Column> columns{{"class", Align::left}, {"training images"}, {"accuracy"}};
  if (!measures.auroc.empty()) columns.insert(columns.end(), {{"AUROC"}, {sensitivity_title(measures)}});
  Table table(columns);
  const auto& accuracy = evaluation.accuracy.per_class;
  for (size_t c = 0; c < accuracy.size(); ++c) {
    std::vector<std::string> row{names[c], fmt::format("{}", counts[c]), percent(accuracy[c])};
    if (!measures.auroc.empty())
      row.insert(row.end(), {with_interval(measures.auroc[c]), with_interval(measures.sensitivity[c])});
    table.add_row(row);
  }
  return table;
}

void evaluate(const EvalFlags& flags) {
  const Assignments changes = with_paths_of_run(flags.model.path, flags.set);
  const ModelCard card = load_model(flags.model.path, flags.model.which()).card;
  const Preparation prepared = data_of(flags.model, card, changes);
  std::vector<Evaluation> evaluations;
  if (flags.posthoc.empty()) evaluations.push_back(evaluate_as(flags, changes, prepared));
  for (const auto& kind : flags.posthoc) {
    auto with_kind = changes;
    with_kind.emplace_back("posthoc.kind", kind);
    evaluations.push_back(evaluate_as(flags, with_kind, prepared));
  }
  note_model(flags.model, evaluations.front().model);
  if (flags.json) {
    Json all = Json::array();
    for (const auto& [model, posthoc, predictions, accuracy, measures] : evaluations) {
      Json json = to_json(accuracy);
      json["measures"] = to_json(measures);
      json["posthoc"] = to_json(posthoc);
      json["loss"] = predictions.loss();
      json["round"] = model.card.round;
      json["split"] = flags.split;
      json["samples"] = images_of(flags, prepared).count();
      all.push_back(std::move(json));
    }
    fmt::print("{}\n", (flags.posthoc.empty() ? all.front() : all).dump());
    return;
  }
  fmt::print("{} after round {} on {} {} images\n\n", flags.model.path, evaluations.front().model.card.round,
             images_of(flags, prepared).count(), flags.split);
  if (evaluations.size() == 1) {
    fmt::print("{}\n", class_table(evaluations.front(), card.class_names, prepared.counts).to_text());
  }
  Table groups({{"post-hoc classifier", Align::left}, {"All"}, {"Many"}, {"Med"}, {"Few"}, {"macro F1"}, {"loss"}});
  for (const auto& evaluation : evaluations) groups.add_row(cells_of(evaluation));
  std::vector<NamedReport> reports;
  for (const auto& evaluation : evaluations) reports.push_back({evaluation.posthoc.kind, &evaluation.measures});
  fmt::print("{}\n{}\n{}", groups.to_text(), measures_text(reports), groups_text(prepared.groups, card.class_names));
}

}  // namespace

void add_eval(CLI::App& app) {
  auto* command = app.add_subcommand("eval", "Evaluate a model on the test set or the validation split of its run");
  auto flags = std::make_shared<EvalFlags>();
  command->add_option("model", flags->model.path, "Run directory, checkpoint or model.safetensors")->type_name("CKPT");
  add_last_flag(*command, flags->model);
  command
      ->add_option("--set", flags->set,
                   "Change a parameter of the run, such as data.path, or posthoc.* for another post-hoc classifier on "
                   "a checkpoint")
      ->type_name("KEY=VALUE");
  command
      ->add_option("--posthoc", flags->posthoc,
                   "Compare post-hoc classifiers, such as none,bias-calibration,tau-norm; posthoc.fit_on selects the "
                   "images for fitted ones")
      ->type_name("KIND,…")
      ->delimiter(',');
  command->add_option("--split", flags->split, "Images to evaluate on")
      ->check(CLI::IsMember(splits))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] {
    find_model(*flags);
    evaluate(*flags);
  });
}

}  // namespace fedgrab::cli
