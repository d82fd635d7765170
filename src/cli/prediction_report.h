/// Predictions as a table, and their accuracy if folders name the true classes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "classification.h"
#include "fedgrab/record/table.h"

namespace fedgrab::cli {

/// The class of an image whose innermost folder with the name of a class says so; by image, empty where none does.
std::vector<std::optional<int32_t>> truth_of(const std::vector<Classified>& images,
                                             const std::vector<std::string>& class_names);

/// file, truth (where any is known), class, probability, and those of the next classes.
Table prediction_table(const std::vector<Classified>& images, const std::vector<std::optional<int32_t>>& truth,
                       const std::vector<std::string>& class_names);

/// Accuracy, balanced accuracy and the confusion of classes; empty where no truth is known.
std::string truth_text(const std::vector<Classified>& images, const std::vector<std::optional<int32_t>>& truth,
                       const std::vector<std::string>& class_names);

}  // namespace fedgrab::cli
