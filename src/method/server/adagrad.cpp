/// FedAdagrad: v ← v + Δ².
#include "entries.h"

namespace fedgrab {
namespace {

class Adagrad : public Adaptive {
 public:
  using Adaptive::Adaptive;

 protected:
  void accumulate(torch::Tensor& v, const torch::Tensor& squared) const override { v.add_(squared); }
};

}  // namespace

Choice<ServerOptimizer> adagrad_entry() {
  return optimizer_entry<Adagrad>("adagrad", "Adagrad (FedAdagrad, Reddi 2021)");
}

}  // namespace fedgrab
