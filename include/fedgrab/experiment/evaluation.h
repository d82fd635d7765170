/// From predictions to the numbers people compare.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/schema.h"

namespace fedgrab {

/// `balanced` resolves groups = auto. Throws a usage Error where lists leave a class out or name it twice.
Groups group_classes(const EvalParams& params, std::span<const int64_t> counts, bool balanced);

Accuracy score(std::span<const int32_t> predictions, std::span<const int32_t> labels, const Groups& groups,
               int64_t classes);

/// [truth][answer].
std::vector<std::vector<int64_t>> confusion_matrix(std::span<const int32_t> predictions,
                                                   std::span<const int32_t> labels, int64_t classes);

}  // namespace fedgrab
