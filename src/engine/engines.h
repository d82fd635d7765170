/// The engines there are.
#pragma once

#include <memory>

#include "fedgrab/engine/engine.h"

namespace fedgrab {

std::unique_ptr<Engine> make_cpu_engine(const EngineParams& params, const Federation& federation);
/// A device is there that the kernels run on.
bool cuda_usable();
std::unique_ptr<Engine> make_cuda_engine(const EngineParams& params, const Federation& federation);

}  // namespace fedgrab
