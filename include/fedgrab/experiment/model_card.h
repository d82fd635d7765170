/// The description inside a model file. Needs no LibTorch, so that it can be fuzzed alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/data/dataset.h"
#include "fedgrab/model/model.h"

namespace fedgrab {

/// The description in a model file, so that evaluation, prediction and export need nothing else.
struct ModelCard {
  std::string architecture;
  ImageShape input;
  Head head;  // the classifier, with all that changes predictions
  std::vector<std::string> class_names;
  Normalisation normalisation;
  int64_t round = 0;
  /// Median of the training images' files, before they were resized, where that is known.
  std::optional<ImageShape> source;
  std::string config;  // TOML of the run, without engine.* and local paths
};

/// As JSON, as stored in the file.
std::string to_text(const ModelCard& card);
/// Throws Error(Fault::checkpoint) naming `file` where the text is no description, or contradicts itself.
ModelCard card_from_text(const std::string& text, const std::string& file);

}  // namespace fedgrab
