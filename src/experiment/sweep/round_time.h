/// How long a round takes on this machine, by timing a few steps.
#pragma once

#include "fedgrab/experiment/settings.h"

namespace fedgrab {

/// Of the engine as a whole, with all its workers or slots busy.
struct StepTime {
  double step = 0;   // seconds per client-step of FedAvg
  double image = 0;  // seconds per image to evaluate
};
/// Uses built-in images: speed does not depend on them. Timed once per model, batch and device.
StepTime time_step(const Settings& settings);

}  // namespace fedgrab
