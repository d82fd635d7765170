#include "fedgrab/engine/engine.h"

#include "engines.h"
#include "fedgrab/core/address_space.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/core/ranks.h"

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

namespace {

std::unique_ptr<Engine> make_own_engine(const EngineParams& params, const Federation& federation) {
#ifdef FEDGRAB_CUDA
  if (on_cuda(params)) return make_cuda_engine(params, federation);
#else
  on_cuda(params);  // may object
#endif
  reserve_blas_memory(static_cast<int>(params.workers > 0 ? params.workers : available_cores()) + 1);
  return make_cpu_engine(params, federation);
}

}  // namespace

Predictions Engine::predict_part(const State& state, const Split& split, int64_t first, int64_t count) {
  auto all = predict(state, split);
  const auto start = all.classes.begin() + first;
  // Whoever has the first sample tells the loss of them all.
  return {{start, start + count}, first == 0 && count > 0 ? all.loss_sum : 0};
}

std::unique_ptr<Engine> make_engine(const EngineParams& params, const Federation& federation) {
  auto own = make_own_engine(params, federation);
  return ranks().count() > 1 ? make_ranked_engine(std::move(own), federation) : std::move(own);
}

}  // namespace fedgrab
