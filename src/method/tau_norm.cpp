/// τ-norm (Kang et al. 2020, Eq. 2): training is FedAvg's; the model that is evaluated and handed out has w_j ←
/// w_j/‖w_j‖^τ in its head, since the norms of rare classes' rows stay small. The bias is kept unless it is to be
/// dropped.
#include "entries.h"

namespace fedgrab {
namespace {

struct TauNormParams {
  double tau = 1;
  bool drop_bias = false;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("tau", tau, "0: the head as it is, 1: rows of length 1").between(0, 10);
    v.param("drop_bias", drop_bias, "leave the bias out of the evaluated head, as the authors' code does");
  }
};

class TauNorm : public Method {
 public:
  using Params = TauNormParams;
  static constexpr const char* name = "tau-norm";
  TauNorm(LocalLoss loss, Params params) : Method(std::move(loss)), params_(params) {}

  State deployed(const State& global, const TensorMap& /*memory*/) const override {
    State changed = global.clone();
    const Head& head = global.model->heads.front();
    if (params_.tau != 0) {
      auto weight = changed.view(head.name + ".weight");
      weight.div_(weight.norm(2, {1}, true).clamp_min(1e-12).pow(params_.tau));
    }
    if (params_.drop_bias && head.bias) changed.view(head.name + ".bias").zero_();
    return changed;
  }

 private:
  TauNormParams params_;
};

}  // namespace

MethodEntry tau_norm_entry() {
  return entry_of<TauNorm, linear_loss>(groups::long_tailed,
                                        "FedAvg, with the head's rows brought to one length at the end (Kang 2020)");
}

}  // namespace fedgrab
