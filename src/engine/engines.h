/// All engines.
#pragma once

#include <memory>

#include "fedgrab/engine/engine.h"

namespace fedgrab {

/// Over ranks, each of which has an engine of its own.
std::unique_ptr<Engine> make_distributed_engine(std::unique_ptr<Engine> own, const Federation& federation,
                                                Communicator& ranks);
std::unique_ptr<Engine> make_cpu_engine(const EngineParams& params, const Federation& federation);
/// Whether there is a device that the kernels support.
bool cuda_usable();
std::unique_ptr<Engine> make_cuda_engine(const EngineParams& params, const Federation& federation);

}  // namespace fedgrab
