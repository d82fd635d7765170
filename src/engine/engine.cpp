#include "fedgrab/engine/engine.h"

#include "engines.h"
#include "fedgrab/core/error.h"

namespace fedgrab {

bool on_cuda(const EngineParams& params) {
#ifdef FEDGRAB_CUDA
  const bool usable = params.device != "cpu" && cuda_usable();
  if (params.device == "cuda" && !usable)
    throw Error(Fault::usage, "engine.device", "there is no CUDA device of compute capability 8.0 or more",
                "choose --device cpu");
  return usable;
#else
  if (params.device == "cuda")
    throw Error(Fault::usage, "engine.device", "this fedgrab was built without CUDA",
                "build it against a CUDA build of PyTorch 2.4 or newer, or choose --device cpu");
  return false;
#endif
}

std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation) {
#ifdef FEDGRAB_CUDA
  if (on_cuda(params)) return make_cuda_engine(params, federation);
#else
  on_cuda(params);  // may object
#endif
  return make_cpu_engine(params, federation);
}

}  // namespace fedgrab
