/// FedAdam: v ← β₂v + (1 − β₂)Δ².
#include "entries.h"

namespace fedgrab {
namespace {

class Adam : public Adaptive {
 public:
  using Adaptive::Adaptive;

 protected:
  void accumulate(torch::Tensor& v, const torch::Tensor& squared) const override {
    v.mul_(params_.beta2).add_(squared, 1 - params_.beta2);
  }
};

}  // namespace

Choice<ServerOptimizer> adam_entry() { return optimizer_entry<Adam>("adam", "Adam (FedAdam, Reddi 2021)"); }

}  // namespace fedgrab
