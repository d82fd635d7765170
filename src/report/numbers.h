/// Numbers that a curve is drawn from, picked from the record of a round.
#pragma once

#include <functional>
#include <optional>

#include "fedgrab/record/schema.h"

namespace fedgrab {

using Number = std::function<std::optional<double>(const RoundRecord&)>;

/// An accuracy of the record, where it was evaluated.
inline Number of_accuracy(std::function<std::optional<double>(const Accuracy&)> pick) {
  return [pick = std::move(pick)](const RoundRecord& r) { return r.accuracy ? pick(*r.accuracy) : std::nullopt; };
}

}  // namespace fedgrab
