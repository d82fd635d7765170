#include "fedgrab/engine/engine.h"

#include "engines.h"
#include "fedgrab/core/address_space.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/parallel.h"

namespace fedgrab {

bool on_cuda(const EngineParams& params) {
#ifdef FEDGRAB_CUDA
  const bool usable = params.device != Device::cpu && cuda_usable();
  if (params.device == Device::cuda && !usable)
    throw Error(Fault::usage, "engine.device", "there is no CUDA device of compute capability 8.0 or more",
                "choose --device cpu");
  return usable;
#else
  if (params.device == Device::cuda)
    throw Error(Fault::usage, "engine.device", "this fedgrab was built without CUDA",
                "build it against a CUDA build of PyTorch 2.4 or newer, or choose --device cpu");
  return false;
#endif
}

int worker_threads(const EngineParams& params) {
  return params.workers > 0 ? static_cast<int>(params.workers) : available_cores();
}

std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation) {
#ifdef FEDGRAB_CUDA
  if (on_cuda(params)) return make_cuda_engine(params, federation);
#else
  on_cuda(params);  // may throw
#endif
  reserve_blas_memory(worker_threads(params) + 1);
  return make_cpu_engine(params, federation);
}

std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation, Communicator& ranks) {
  auto own = make_engine(params, federation);
  return ranks.size() > 1 ? make_distributed_engine(std::move(own), federation, ranks) : std::move(own);
}

}  // namespace fedgrab
