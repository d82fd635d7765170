/// Balanced softmax (Ren et al. 2020), or logit adjustment (Menon et al. 2021): cross-entropy of z_j + τ log π_j, with
/// π the class shares by `objective.class_sizes`: the client's own, or the estimate of prior.source. The term is added
/// in training only. A class of no samples counts as one.
#include "entries.h"

namespace fedgrab {
namespace {

struct BalancedSoftmaxParams {
  double tau = 1;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("tau", tau, "strength of the adjustment (0: cross-entropy)").between(0, 100);
  }
};

class BalancedSoftmax : public Objective {
 public:
  using Params = BalancedSoftmaxParams;
  static constexpr const char* name = "balanced-softmax";
  explicit BalancedSoftmax(Params params) : tau_(params.tau) {}
  std::string one_label_reason() const override { return {}; }
  std::optional<KernelForm> kernel_form() const override { return KernelForm{.offset = tau_ != 0}; }
  torch::Tensor logit_offset(const torch::Tensor& counts) const override {
    const auto sizes = counts.clamp_min(1);
    return tau_ * (sizes / sizes.sum(-1, true)).log();
  }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& /*client_state*/) const override {
    if (tau_ == 0) return softmax_loss(batch);
    LogitBatch adjusted = batch;
    adjusted.logits = batch.logits + logit_offset(batch.counts).unsqueeze(-2);
    return softmax_loss(adjusted);
  }

 private:
  double tau_;
};

}  // namespace

Choice<Objective> balanced_softmax_entry() {
  return entry_of<BalancedSoftmax>(
      "cross-entropy of logits plus the log class shares of the client (Ren 2020, Menon 2021)");
}

}  // namespace fedgrab
