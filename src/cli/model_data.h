/// The data of the run that trained a model.
#pragma once

#include <string>
#include <vector>

#include "fedgrab/experiment/preparation.h"
#include "model_choice.h"

namespace fedgrab::cli {

/// `changes`, after what the configuration of the run says of where its data lie: no model file says so.
Assignments with_paths_of_run(const std::string& model, const std::vector<std::string>& changes);

/// Throws Error(Fault::checkpoint) where the data are not of the classes and the size of image that the model has.
Preparation data_of(const ModelChoice& choice, const ModelCard& card, const Assignments& changes);

}  // namespace fedgrab::cli
