#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "commands.h"
#include "fedgrab/core/enums.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/version.h"
#include "fedgrab/experiment/card_page.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/model/onnx.h"
#include "fedgrab/model/torchscript.h"
#include "model_data.h"

namespace fedgrab {
namespace cli {
enum class ExportFormat { onnx, torchscript, safetensors };
}  // namespace cli
template <>
inline constexpr auto enum_names<cli::ExportFormat> = names("onnx", "torchscript", "safetensors");
}  // namespace fedgrab

namespace fedgrab::cli {
namespace {

namespace fs = std::filesystem;

struct ExportFlags {
  ModelChoice model;
  std::string out, format;
  std::vector<std::string> set;
  bool no_counts = false;
};

/// By --format, else by the ending of the file, else ONNX.
ExportFormat format_of(const ExportFlags& flags) {
  if (!flags.format.empty()) return *enum_named<ExportFormat>(flags.format);
  const auto ending = fs::path(flags.out).extension();
  if (ending == ".safetensors") return ExportFormat::safetensors;
  return ending == ".pt" || ending == ".pth" || ending == ".ts" ? ExportFormat::torchscript : ExportFormat::onnx;
}

std::map<std::string, std::string> onnx_metadata(const ModelCard& card) {
  const Json names = card.class_names;
  const Config config = resolve_config({"the description of the model", card.config}, {});
  return {{"class_names", names.dump()},
          {"architecture", card.architecture},
          {"fedgrab_version", version()},
          {"fedgrab_revision", revision()},
          {"round", fmt::format("{}", card.round)},
          {"method", std::get<std::string>(config.get("method.name"))},
          {"posthoc", std::get<std::string>(config.get("posthoc.kind"))},
          {"calibrated", calibrated(card) ? "true" : "false"},
          {"input", fmt::format("{} values 0..1, resized to {} x {} (bilinear with anti-aliasing)",
                                card.input.channels == 1 ? "grey" : "RGB", card.input.height, card.input.width)}};
}

const char* outputs_of(ExportFormat format) {
  switch (format) {
    case ExportFormat::onnx: return "logits and probabilities";
    case ExportFormat::torchscript: return "logits";
    case ExportFormat::safetensors: return "weights alone, by torchvision's names";
  }
  return "";
}

void write_model(const ExportFlags& flags, ExportFormat format, const LoadedModel& loaded) {
  const Json classes = loaded.card.class_names;
  switch (format) {
    case ExportFormat::onnx:
      return save_onnx(flags.out, loaded.state, loaded.card.normalisation, onnx_metadata(loaded.card));
    case ExportFormat::torchscript:
      return save_torchscript(flags.out, loaded.state, loaded.card.normalisation,
                              {{"classes.json", classes.dump()}, {"config.toml", loaded.card.config}});
    case ExportFormat::safetensors: return save_model(flags.out, loaded.card, loaded.state);
  }
}

/// What the summary of its run says of the model, where the model is the one the summary is about.
void find_summary(const ExportFlags& flags, const LoadedModel& loaded, CardSource& source) {
  const auto run = run_of(loaded.file);
  if (!run || !run->finished()) return;
  source.summary = run->read_summary();
  if (!flags.set.empty()) return;  // another classifier than the one that was measured
  if (loaded.file.lexically_normal() == run->best().lexically_normal())
    source.model = RunModel::best;
  else if (loaded.card.round == source.summary.value("rounds", Json()))
    source.model = RunModel::last;
}

/// Beside the file; of what is no file, a pipe say, there is none.
std::optional<fs::path> write_card(const ExportFlags& flags, ExportFormat format, const LoadedModel& loaded) {
  if (!fs::is_regular_file(flags.out)) return std::nullopt;
  CardSource source{.file = fs::path(flags.out).filename().string(),
                    .outputs = outputs_of(format),
                    .summary = {},
                    .model = {},
                    .counts = !flags.no_counts};
  find_summary(flags, loaded, source);
  const fs::path page = flags.out + ".md";
  write_atomically(page, card_page(loaded, source));
  return page;
}

/// With the data of the run, if the requested classifier is fitted on them.
LoadedModel deployed_model(const ExportFlags& flags) {
  for (const auto& [key, value] : assignments_of(flags.set))
    if (!key.starts_with("posthoc.") && !key.starts_with("prior.") && !is_path_key(key))
      throw Error(Fault::usage, key, "changes nothing in what is exported",
                  fmt::format("--set takes posthoc.*, prior.* and {}", fmt::join(path_keys(), ", ")));
  const auto changes = with_paths_of_run(flags.model.path, flags.set);
  const ModelCard card = load_model(flags.model.path, flags.model.which()).card;
  std::optional<Preparation> data;
  if (!flags.set.empty() && needs_data(card, changes)) data = data_of(flags.model, card, changes);
  return redeploy(flags.model.path, changes, data ? &*data : nullptr, flags.model.which());
}

void export_model(const ExportFlags& flags) {
  LoadedModel loaded = deployed_model(flags);
  loaded.card = for_export(loaded.card);
  const ExportFormat format = format_of(flags);
  write_model(flags, format, loaded);
  const auto page = write_card(flags, format, loaded);
  note_model(flags.model, loaded);
  const auto& card = loaded.card;
  fmt::print("{}: {} of {} classes, input [batch, {}, {}, {}]{}{}\n", flags.out, card.architecture,
             card.class_names.size(), card.input.channels, card.input.height, card.input.width,
             format == ExportFormat::safetensors ? ", " : " as floats 0..1, output ", outputs_of(format));
  if (page) fmt::print("{}: its model card\n", page->string());
}

}  // namespace

void add_export(CLI::App& app) {
  auto* command = app.add_subcommand("export", "Export a model for other programs, with a model card");
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("model", flags->model.path, "Run directory, checkpoint or model.safetensors")
      ->required()
      ->type_name("CKPT");
  command->add_option("-o,--out", flags->out, "File to write; FILE.md beside it is the model card")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "--format", flags->format,
          "onnx (ONNX Runtime and most others), torchscript (LibTorch, PyTorch; deprecated by PyTorch) or "
          "safetensors (weights alone, torchvision's names); by default what the file's ending says, else onnx")
      ->check(CLI::IsMember(all_names<ExportFormat>()));
  command->add_flag("--no-counts", flags->no_counts, "Leave the training images by class out of the model card");
  add_last_flag(*command, flags->model);
  command->add_option("--set", flags->set, "Deploy the model of a checkpoint with other posthoc.* or prior.*")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback([flags] { export_model(*flags); });
}

}  // namespace fedgrab::cli
