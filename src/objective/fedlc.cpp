/// FedLC (Zhang et al. 2022, Eq. 9): cross-entropy of z_j − τ n_j^(−1/4), with n the client's own class counts: rare
/// classes have larger margins. A class that the client lacks counts as one sample.
#include "entries.h"

namespace fedgrab {
namespace {

struct FedLcParams {
  double tau = 1;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("tau", tau, "size of the margins (0: cross-entropy)").between(0, 100);
  }
};

class FedLc : public Objective {
 public:
  using Params = FedLcParams;
  static constexpr const char* name = "fedlc";
  explicit FedLc(Params params) : tau_(params.tau) {}
  std::string one_label_reason() const override { return {}; }
  std::optional<KernelForm> kernel_form() const override { return KernelForm{.offset = tau_ != 0}; }
  torch::Tensor logit_offset(const torch::Tensor& counts) const override {
    return -tau_ * counts.clamp_min(1).pow(-0.25);
  }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& /*client_state*/) const override {
    if (tau_ == 0) return softmax_loss(batch);
    LogitBatch calibrated = batch;
    calibrated.logits = batch.logits + logit_offset(batch.counts).unsqueeze(-2);
    return softmax_loss(calibrated);
  }

 private:
  double tau_;
};

}  // namespace

Choice<Objective> fedlc_entry() {
  return entry_of<FedLc>("cross-entropy with margins by the client's class counts (Zhang 2022)");
}

}  // namespace fedgrab
