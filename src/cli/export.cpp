#include <fmt/format.h>

#include "commands.h"
#include "fedgrab/core/error.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/model/torchscript.h"

namespace fedgrab::cli {
namespace {

struct ExportFlags {
  std::string model, out;
  std::string format = "torchscript";
  std::vector<std::string> set;
};

void export_model(const ExportFlags& flags) {
  for (const auto& change : flags.set)
    if (!change.starts_with("posthoc.") && !change.starts_with("prior."))
      throw Error(Fault::usage, change, "changes nothing in what is exported", "--set takes posthoc.* and prior.*");
  const LoadedModel loaded = redeploy(flags.model, assignments_of(flags.set), nullptr);
  const auto& card = loaded.card;
  if (flags.format == "safetensors") {
    save_model(flags.out, card, loaded.state);
  } else {
    const Json classes = card.class_names;
    save_torchscript(flags.out, loaded.state, card.normalisation,
                     {{"classes.json", classes.dump()}, {"config.toml", card.config}});
  }
  fmt::print("{}: {} of {} classes, input [batch, {}, {}, {}]{}\n", flags.out, card.architecture,
             card.class_names.size(), card.input.channels, card.input.height, card.input.width,
             flags.format == "torchscript" ? " as floats 0..1, output logits" : "");
}

}  // namespace

void add_export(CLI::App& app) {
  auto* command = app.add_subcommand("export", "Write a model for use elsewhere");
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("model", flags->model, "Run directory, checkpoint or model.safetensors")
      ->required()
      ->type_name("CKPT");
  command->add_option("-o,--out", flags->out, "File to write")->required()->type_name("FILE");
  command
      ->add_option("--format", flags->format,
                   "torchscript (LibTorch, PyTorch, mobile) or safetensors (torchvision's names)")
      ->check(CLI::IsMember({"torchscript", "safetensors"}))
      ->capture_default_str();
  command->add_option("--set", flags->set, "Deploy the model of a checkpoint with other posthoc.* or prior.*")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback([flags] { export_model(*flags); });
}

}  // namespace fedgrab::cli
