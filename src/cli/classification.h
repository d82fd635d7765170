/// Classifies many image files: decoded on all cores, run through the network in batches.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fedgrab/experiment/checkpoint.h"
#include "image_files.h"

namespace fedgrab::cli {

struct ClassifyOptions {
  int64_t top = 3;       // classes to keep
  bool convert = false;  // colour images for a model of grey ones
};

struct Classified {
  const ImageFile* file = nullptr;
  std::vector<int32_t> classes;  // the likeliest first
  std::vector<float> probabilities;
};

struct Classification {
  std::vector<Classified> images;
  std::vector<std::string> skipped;  // with the reason
  /// What makes the predictions doubtful.
  std::vector<std::string> warnings;
};

/// Throws Error(Fault::data) at an image named on the command line that cannot be read or does not fit the model;
/// below a folder such images are skipped. Throws Error(Fault::checkpoint) where the predictions contain NaN.
Classification classify(const LoadedModel& model, const ImageFiles& files, const ClassifyOptions& options);

}  // namespace fedgrab::cli
