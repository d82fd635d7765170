/// Which test images a run shows with their predictions, and their thumbnails.
#pragma once

#include <vector>

#include "fedgrab/data/dataset.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/record/encoded_image.h"
#include "fedgrab/record/last_evaluation.h"

namespace fedgrab {

struct SampleChoice {
  int64_t image = 0, answer = 0;
  double confidence = 0;  // softmax probability of the answer
};

/// The most confident mistakes, and where those are too few, the least confident right answers. The predictions have
/// their logits.
std::vector<SampleChoice> choose_samples(const Predictions& predictions, const Split& test, int64_t count);

/// With thumbnails of at most 64 pixels a side.
std::vector<SampleImage> sample_images(const std::vector<SampleChoice>& choices, const Split& test);

}  // namespace fedgrab
