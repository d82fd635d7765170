#include "model_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "fedgrab/core/error.h"

namespace fedgrab::cli {
namespace {

std::string text_of(size_t classes, const ImageShape& images) {
  return fmt::format("{} classes of {}x{}x{} images", classes, images.channels, images.height, images.width);
}

/// The first class that differs.
std::string first_difference(const std::vector<std::string>& trained, const std::vector<std::string>& given) {
  const auto [a, b] = std::mismatch(trained.begin(), trained.end(), given.begin());
  return fmt::format("\"{}\" instead of \"{}\"", *b, *a);
}

void require_same_images(const std::string& model, const ModelCard& card, const Dataset& data) {
  if (data.shape() != card.input || data.class_names.size() != card.class_names.size())
    throw Error(Fault::checkpoint, model,
                fmt::format("expects {}, the data has {}", text_of(card.class_names.size(), card.input),
                            text_of(data.class_names.size(), data.shape())));
  if (data.class_names != card.class_names)
    throw Error(Fault::checkpoint, model,
                fmt::format("was trained on classes that differ from those of the data: {}",
                            first_difference(card.class_names, data.class_names)),
                "the class folders must have the same names as in training");
}

}  // namespace

Assignments with_paths_of_run(const std::string& model, const std::vector<std::string>& changes) {
  Assignments all;
  if (const auto run = run_of(model)) {
    const Config config = resolve_config(run->config(), {});
    for (const auto& key : path_keys())
      if (const auto path = std::get<std::string>(config.get(key)); !path.empty()) all.emplace_back(key, path);
  }
  for (auto& change : assignments_of(changes)) all.push_back(std::move(change));
  return all;
}

Preparation data_of(const ModelChoice& choice, const ModelCard& card, const Assignments& changes) {
  Preparation prepared = prepare(read_settings(resolve_config({choice.path, card.config}, changes)));
  require_same_images(choice.path, card, prepared.data);
  prepared.data.normalisation = card.normalisation;
  return prepared;
}

}  // namespace fedgrab::cli
