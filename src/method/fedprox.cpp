/// FedProx (Li et al. 2020, Eq. 2): each client minimises F_k(w) + μ/2 ‖w − w_global‖².
#include "entries.h"

namespace fedgrab {
namespace {

struct FedProxParams {
  double mu = 0.01;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("mu", mu, "weight of the pull towards the global model").between(0, 1e6);
  }
};

class FedProx : public Method {
 public:
  using Params = FedProxParams;
  static constexpr const char* name = "fedprox";
  FedProx(LocalLoss loss, Params params) : Method(std::move(loss)), mu_(params.mu) {}

  ClientRule client_rule(const ClientView& view) const override {
    auto rule = Method::client_rule(view);
    rule.proximal = mu_;
    return rule;
  }

 private:
  double mu_;
};

}  // namespace

MethodEntry fedprox_entry() {
  return entry_of<FedProx>(groups::federated, "clients are pulled towards the global model (Li 2020)");
}

}  // namespace fedgrab
