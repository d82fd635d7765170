#include <fmt/format.h>

#include "accuracy_table.h"
#include "commands.h"
#include "fedgrab/core/address_space.h"
#include "fedgrab/core/error.h"
#include "fedgrab/data/batch.h"
#include "fedgrab/data/load.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/settings.h"
#include "fedgrab/model/network.h"

namespace fedgrab::cli {
namespace {

struct PredictFlags {
  std::string model;
  std::vector<std::string> images;
  int64_t top = 3;
  bool json = false;
};

torch::Tensor probabilities(Network& network, const ModelCard& card, const DataParams& data, const std::string& path) {
  const Images one = read_alone(path, data, card.input);
  auto input = torch::empty({1, card.input.channels, card.input.height, card.input.width});
  const int64_t first = 0;
  write_batch(one, {&first, 1}, card.normalisation, input.data_ptr<float>());
  auto result = network.forward(input).logits.front().softmax(1)[0];
  if (!result.isfinite().all().item<bool>())
    throw Error(Fault::checkpoint, path, "the predictions contain NaN",
                "it diverged in training: lower train.lr, or train longer");
  return result;
}

void predict(const PredictFlags& flags) {
  reserve_blas_memory(1);
  const LoadedModel loaded = load_model(flags.model);
  Network network(loaded.state.model);
  network.load(loaded.state);
  Config config{full_schema()};
  config.load_toml_text(loaded.card.config, flags.model);
  const DataParams data = read_settings(config).data;
  const auto& names = loaded.card.class_names;
  for (const auto& path : flags.images) {
    const auto [values, classes] = probabilities(network, loaded.card, data, path)
                                       .topk(std::min<int64_t>(flags.top, static_cast<int64_t>(names.size())));
    Json json{{"image", path}, {"classes", Json::array()}};
    std::string line = path;
    for (int64_t i = 0; i < values.size(0); ++i) {
      const auto& name = names[static_cast<size_t>(classes[i].item<int64_t>())];
      const auto p = values[i].item<double>();
      line += fmt::format("\t{} {:.3f}", name, p);
      json["classes"].push_back({{"name", name}, {"probability", p}});
    }
    // A file name may hold any bytes.
    fmt::print("{}\n", flags.json ? json.dump(-1, ' ', false, Json::error_handler_t::replace) : line);
  }
}

}  // namespace

void add_predict(CLI::App& app) {
  auto* command = app.add_subcommand("predict", "Classify images: class names and probabilities");
  auto flags = std::make_shared<PredictFlags>();
  command->add_option("model", flags->model, "Run directory, checkpoint or model.safetensors")
      ->required()
      ->type_name("CKPT");
  command->add_option("images", flags->images, "PNG, JPEG, TIFF, WebP, DICOM or PPM files, any size")
      ->required()
      ->type_name("IMAGE");
  command->add_option("--top", flags->top, "How many classes to show")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One JSON object a line");
  command->callback([flags] { predict(*flags); });
}

}  // namespace fedgrab::cli
