/// A round as TensorBoard shows it.
#pragma once

#include <string>
#include <vector>

#include "fedgrab/record/schema.h"
#include "fedgrab/record/tensorboard.h"

namespace fedgrab {

/// `confusion` may be empty: then there is no image of it.
void write_events(TensorBoardWriter& tensorboard, const RoundRecord& record, const std::vector<std::string>& classes,
                  const std::vector<std::vector<int64_t>>& confusion);

}  // namespace fedgrab
