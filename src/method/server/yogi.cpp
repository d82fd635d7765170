/// FedYogi: v ← v − (1 − β₂)Δ² sign(v − Δ²).
#include "entries.h"

namespace fedgrab {
namespace {

class Yogi : public Adaptive {
 public:
  using Adaptive::Adaptive;

 protected:
  void accumulate(torch::Tensor& v, const torch::Tensor& squared) const override {
    v.sub_(squared * torch::sign(v - squared), 1 - params_.beta2);
  }
};

}  // namespace

Choice<ServerOptimizer> yogi_entry() { return optimizer_entry<Yogi>("yogi", "Yogi (FedYogi, Reddi 2021)"); }

}  // namespace fedgrab
