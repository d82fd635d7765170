/// FedProx (Li et al. 2020, Eq. 2): each client minimises F_k(w) + μ/2 ‖w − w_global‖².
#include "entries.h"

namespace fedgrab {
namespace {

struct ProxParams {
  double mu = 0.01;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("mu", mu, "weight of the proximal term").between(0, 1e6);
  }
};

class Prox : public ClientAlgorithm {
 public:
  using Params = ProxParams;
  static constexpr const char* name = "prox";
  explicit Prox(Params params) : mu_(params.mu) {}

  void configure(const ClientContext& /*client*/, LocalProblem& problem) const override { problem.proximal = mu_; }

 private:
  double mu_;
};

}  // namespace

Choice<ClientAlgorithm> prox_entry() {
  return choice_of<ClientAlgorithm, Prox>("client", "proximal term towards the global model (FedProx, Li 2020)");
}

}  // namespace fedgrab
