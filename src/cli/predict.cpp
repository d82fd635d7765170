#include <fmt/format.h>

#include <algorithm>

#include "classification.h"
#include "commands.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/experiment/settings.h"
#include "model_choice.h"
#include "prediction_report.h"

namespace fedgrab::cli {
namespace {

constexpr size_t most_named = 20;  // of the skipped files

struct PredictFlags {
  ModelChoice model;
  std::vector<std::string> images;
  std::string csv;
  bool json = false;
  ClassifyOptions classify;
};

void print_lines(const std::vector<Classified>& images, const std::vector<std::string>& names, bool as_json) {
  for (const auto& image : images) {
    Json json{{"image", image.file->shown}, {"classes", Json::array()}};
    std::string line = image.file->shown;
    for (size_t i = 0; i < image.classes.size(); ++i) {
      const auto& name = names[static_cast<size_t>(image.classes[i])];
      line += fmt::format("\t{} {:.3f}", name, image.probabilities[i]);
      json["classes"].push_back({{"name", name}, {"probability", static_cast<double>(image.probabilities[i])}});
    }
    // A file name may hold any bytes.
    fmt::print("{}\n", as_json ? json.dump(-1, ' ', false, Json::error_handler_t::replace) : line);
  }
}

void note_skipped(const std::vector<std::string>& skipped) {
  for (size_t i = 0; i < std::min(skipped.size(), most_named); ++i) warn("skipped " + skipped[i]);
  if (skipped.empty()) return;
  warn(skipped.size() > most_named
           ? fmt::format("{} skipped in all, {} of them not named here", skipped.size(), skipped.size() - most_named)
           : fmt::format("{} skipped in all", skipped.size()));
}

/// The folder of the training images of a run, and perhaps of its test images, where it is still known.
std::optional<std::filesystem::path> training_folder(const std::string& model) try {
  const auto run = run_of(model);
  if (!run) return std::nullopt;
  const DataParams data = read_settings(resolve_config(run->config(), {})).data;
  if (data.path.empty()) return std::nullopt;
  const auto folder = std::filesystem::weakly_canonical(data.path);
  return is_directory(folder / "train") ? folder / "train" : folder;
} catch (const Error&) {
  return std::nullopt;  // a model is of use without its configuration
}

/// What is right there says nothing about new images.
bool trained_on_some(const std::string& model, const ImageFiles& files) {
  namespace fs = std::filesystem;
  const auto known = training_folder(model);
  if (!known) return false;
  const fs::path& folder = *known;
  return std::any_of(files.files.begin(), files.files.end(), [&](const ImageFile& file) {
    const fs::path image = fs::weakly_canonical(file.path);
    return std::mismatch(folder.begin(), folder.end(), image.begin(), image.end()).first == folder.end();
  });
}

void predict(const PredictFlags& flags) {
  const LoadedModel loaded = load_model(flags.model.path, flags.model.which());
  const ImageFiles files = find_images(flags.images);
  const Classification result = classify(loaded, files, flags.classify);
  if (result.images.empty())
    throw Error(Fault::data, flags.images.front(),
                fmt::format("none of its {} images could be classified, the first because: {}", files.files.size(),
                            result.skipped.front()));
  const auto& names = loaded.card.class_names;
  const auto truth = truth_of(result.images, names);
  note_model(flags.model, loaded);
  note_skipped(result.skipped);
  for (const auto& warning : result.warnings) warn(warning);
  if (!calibrated(loaded.card))
    note(
        "the probabilities are not calibrated (posthoc.temperature=true, with data.validation, calibrates them in "
        "training)");
  if (!flags.csv.empty())
    write_atomically(flags.csv, prediction_table(result.images, truth, names).to_csv());
  else
    print_lines(result.images, names, flags.json);
  if (flags.json) return;
  if (!flags.csv.empty()) fmt::print("{}: {} images\n", flags.csv, result.images.size());
  const auto text = truth_text(result.images, truth, names);
  if (text.empty()) return;
  fmt::print("\n{}", text);
  if (trained_on_some(flags.model.path, files))
    fmt::print("These images include those of the training: `fedgrab eval {}` measures on the test images.\n",
               flags.model.path);
}

}  // namespace

void add_predict(CLI::App& app) {
  auto* command = app.add_subcommand("predict", "Classify images; print class names and probabilities");
  auto flags = std::make_shared<PredictFlags>();
  command->add_option("model", flags->model.path, "Run directory, checkpoint or model.safetensors")
      ->required()
      ->type_name("CKPT");
  command
      ->add_option("images", flags->images,
                   "PNG, JPEG, TIFF, WebP, DICOM or PPM files of any size, or folders, which are searched recursively; "
                   "subfolders named after classes are taken as true labels")
      ->required()
      ->type_name("IMAGE|FOLDER");
  auto* csv =
      command->add_option("--csv", flags->csv, "Write a table: file, true class, predicted classes and probabilities")
          ->type_name("FILE");
  command->add_option("--top", flags->classify.top, "Number of classes to print per image")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object per image")->excludes(csv);
  command->add_flag("--convert", flags->classify.convert, "Convert colour images to grey for a model of grey images");
  add_last_flag(*command, flags->model);
  command->callback([flags] { predict(*flags); });
}

}  // namespace fedgrab::cli
