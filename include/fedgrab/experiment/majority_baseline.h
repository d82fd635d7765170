/// The majority baseline: the accuracy of predicting the largest class of the test set for every image.
#pragma once

#include <string>

#include "fedgrab/experiment/preparation.h"

namespace fedgrab {

/// One line of what is wrong and what to try; empty where the accuracy is above the share of the largest class.
std::string majority_warning(const Accuracy& last, const Dataset& data, const Settings& settings);

}  // namespace fedgrab
