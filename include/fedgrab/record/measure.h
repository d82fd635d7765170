/// Measures of a classifier by name, and their values. docs/measures.md defines each.
#pragma once

#include <map>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class Measure { accuracy, balanced_accuracy, macro_f1, auroc, sensitivity, ece };
/// As they are called in metrics.jsonl, summary.json and on the command line.
template <>
inline constexpr auto enum_names<Measure> = names("accuracy", "balanced_accuracy", "macro_f1", "auroc", "sensitivity",
                                                  "ece");

/// For a reader: "balanced accuracy", "AUROC".
constexpr const char* title_of(Measure measure) {
  switch (measure) {
    case Measure::accuracy: return "accuracy";
    case Measure::balanced_accuracy: return "balanced accuracy";
    case Measure::macro_f1: return "macro F1";
    case Measure::auroc: return "AUROC";
    case Measure::sensitivity: return "sensitivity";
    case Measure::ece: return "ECE";
  }
  return "";
}

/// What is not defined is left out: an AUROC without logits, say.
using MeasureValues = std::map<Measure, double>;

struct Interval {
  double low = 0, high = 0;
};

}  // namespace fedgrab
