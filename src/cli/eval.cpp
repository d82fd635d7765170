#include <fmt/format.h>

#include <algorithm>

#include "accuracy_table.h"
#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/error.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/evaluation.h"
#include "fedgrab/experiment/preparation.h"

namespace fedgrab::cli {
namespace {

struct EvalFlags {
  std::string model;
  std::vector<std::string> set;
  bool json = false;
};

/// --set takes every word up to the next flag: `--set data.path=x runs/mine --json` means the run.
void find_model(EvalFlags& flags) {
  const auto word = std::find_if(flags.set.begin(), flags.set.end(),
                                 [](const std::string& text) { return text.find('=') == std::string::npos; });
  if (flags.model.empty() && word != flags.set.end()) {
    flags.model = *word;
    flags.set.erase(word);
  }
  if (flags.model.empty()) throw Error(Fault::usage, "command line", "model is required", "fedgrab eval --help");
}

/// The first class that differs.
std::string first_difference(const std::vector<std::string>& trained, const std::vector<std::string>& given) {
  const auto [a, b] = std::mismatch(trained.begin(), trained.end(), given.begin());
  return fmt::format("\"{}\" instead of \"{}\"", *b, *a);
}

void evaluate(const EvalFlags& flags) {
  const LoadedModel loaded = load_model(flags.model, flags.set);
  const Config config = resolve_config({flags.model, loaded.card.config}, assignments_of(flags.set));
  const Settings settings = read_settings(config);
  Preparation prepared = prepare(settings);
  if (prepared.data.shape() != loaded.card.input || prepared.data.classes() != loaded.state.model->classes)
    throw Error(Fault::checkpoint, flags.model,
                fmt::format("expects {} classes of {}x{}x{} images, the data has {} of {}x{}x{}",
                            loaded.state.model->classes, loaded.card.input.channels, loaded.card.input.height,
                            loaded.card.input.width, prepared.data.classes(), prepared.data.shape().channels,
                            prepared.data.shape().height, prepared.data.shape().width));
  if (prepared.data.class_names != loaded.card.class_names)
    throw Error(Fault::checkpoint, flags.model,
                fmt::format("was trained on other classes than the data has: {}",
                            first_difference(loaded.card.class_names, prepared.data.class_names)),
                "the folders of the classes must have the names they had in training");
  prepared.data.normalisation = loaded.card.normalisation;
  const Partition nobody;
  const Federation federation{prepared.data, nobody, loaded.state.model, settings.train};
  const auto predictions = make_engine(settings.engine, federation)->predict(loaded.state, prepared.data.test);
  const Accuracy accuracy =
      score(predictions.classes, prepared.data.test.labels, prepared.groups, prepared.data.classes());

  if (flags.json) {
    Json json = to_json(accuracy);
    json["loss"] = predictions.loss();
    json["round"] = loaded.card.round;
    json["samples"] = prepared.data.test.count();
    fmt::print("{}\n", json.dump());
    return;
  }
  Table table({{"class", Align::left}, {"training images"}, {"accuracy"}});
  for (size_t c = 0; c < accuracy.per_class.size(); ++c)
    table.add_row({loaded.card.class_names[c], fmt::format("{}", prepared.counts[c]), percent(accuracy.per_class[c])});
  Table groups({{"All"}, {"Many"}, {"Med"}, {"Few"}, {"macro F1"}, {"loss"}});
  auto cells = accuracy_cells(accuracy);
  cells.push_back(percent(accuracy.f1));
  cells.push_back(fmt::format("{:.4f}", predictions.loss()));
  groups.add_row(cells);
  fmt::print("{} after round {} on {} test images\n\n{}\n{}\n{}", flags.model, loaded.card.round,
             prepared.data.test.count(), table.to_text(), groups.to_text(),
             groups_text(prepared.groups, loaded.card.class_names));
}

}  // namespace

void add_eval(CLI::App& app) {
  auto* command = app.add_subcommand("eval", "Evaluate a model on its test set");
  auto flags = std::make_shared<EvalFlags>();
  command->add_option("model", flags->model, "Run directory, checkpoint or model.safetensors")->type_name("CKPT");
  command
      ->add_option(
          "--set", flags->set,
          "Change a parameter of the run: data.path say, or posthoc.* to deploy the model of a checkpoint with another "
          "classifier")
      ->type_name("KEY=VALUE");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] {
    find_model(*flags);
    evaluate(*flags);
  });
}

}  // namespace fedgrab::cli
