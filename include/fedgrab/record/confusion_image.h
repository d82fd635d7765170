/// A confusion matrix as a small PNG: rows are the truth, columns the answer, dark is a large share of the row.
#pragma once

#include <cstdint>
#include <vector>

#include "fedgrab/record/encoded_image.h"

namespace fedgrab {

/// The matrix must have a row.
EncodedImage confusion_image(const std::vector<std::vector<int64_t>>& confusion);

}  // namespace fedgrab
