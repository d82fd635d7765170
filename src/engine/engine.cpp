#include "fedgrab/engine/engine.h"

#include "engines.h"
#include "fedgrab/core/error.h"

namespace fedgrab {

std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation) {
#ifdef FEDGRAB_CUDA
  const bool usable = cuda_usable();
  if (params.device == "cuda" && !usable)
    throw Error(Fault::usage, "engine.device", "there is no CUDA device of compute capability 8.0 or more",
                "choose --device cpu");
  if (usable && params.device != "cpu") return make_cuda_engine(params, federation);
#else
  if (params.device == "cuda")
    throw Error(Fault::usage, "engine.device", "this fedgrab was built without CUDA",
                "build it against a CUDA build of PyTorch 2.4 or newer, or choose --device cpu");
#endif
  return make_cpu_engine(params, federation);
}

}  // namespace fedgrab
