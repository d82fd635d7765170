/// The model card: a page in Markdown that goes with an exported model.
#pragma once

#include <string>

#include "fedgrab/experiment/checkpoint.h"

namespace fedgrab {

struct CardSource {
  std::string file;               // that was exported, without folders
  std::string outputs;            // what the file gives: "logits and probabilities"
  Json summary;                   // of the run, where there is one
  std::optional<RunModel> model;  // which model of the summary it is; none: another
  bool counts = true;             // name the training images by class
};

/// What the model is, its classes and measures, what it is for and what it is not. Holds no path of this machine.
/// Measures are whatever numbers the summary has.
std::string card_page(const LoadedModel& model, const CardSource& source);

}  // namespace fedgrab
