/// FedIR (Hsu et al. 2020, Eq. 4): a client weighs each sample by p(y)/q_k(y), the share of its class in the federation
/// over that in the client's own data, as if all clients had drawn from one distribution. The federation's class counts
/// must be known: each client reveals its own once.
#include "entries.h"

namespace fedgrab {
namespace {

class FedIr : public Method {
 public:
  using Method::Method;
  static constexpr const char* name = "fedir";
  bool wants_counts() const override { return true; }

  ClientRule client_rule(const ClientView& view) const override {
    auto rule = Method::client_rule(view);
    const auto own = torch::tensor(std::vector<float>(view.counts.begin(), view.counts.end()));
    const auto target = true_counts() / true_counts().sum();
    // A class without samples is never met; its weight is 0 and not infinite.
    rule.class_weights = torch::where(own > 0, target * own.sum() / own.clamp_min(1), torch::zeros_like(own));
    return rule;
  }
};

}  // namespace

MethodEntry fedir_entry() {
  return entry_of<FedIr>(groups::federated, "samples weighted towards the federation's class shares (Hsu 2020)");
}

}  // namespace fedgrab
