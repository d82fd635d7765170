/// Focal loss (Lin et al. 2017): L = −(1 − p)^γ log p with p the softmax's probability of the label, so that
/// confidently classified samples have less weight. dL/dz_j = (γ(1 − p)^(γ−1) p log p − (1 − p)^γ)(1[j = y] − p_j).
#include "entries.h"

namespace fedgrab {
namespace {

struct FocalParams {
  double gamma = 2;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("gamma", gamma, "focusing parameter: exponent of 1 - p of the label (0: cross-entropy)").between(0, 100);
  }
};

class Focal : public Objective {
 public:
  using Params = FocalParams;
  static constexpr const char* name = "focal";
  explicit Focal(Params params) : gamma_(params.gamma) {}

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& /*client_state*/) const override {
    if (gamma_ == 0) return softmax_loss(batch);
    const auto log_all = batch.logits.log_softmax(-1);
    const auto log_p = log_all.gather(-1, batch.labels.unsqueeze(-1));
    const auto p = log_p.exp();
    // 1 − p without cancellation, and never 0, whose power below 1 is infinite
    const auto rest = (-torch::expm1(log_p)).clamp_min(1e-30);
    const auto slope = gamma_ * rest.pow(gamma_ - 1) * p * log_p - rest.pow(gamma_);
    const auto weight = mean_weights(batch);
    return {-(rest.pow(gamma_) * log_p).squeeze(-1).mul(weight).sum(-1),
            slope * (one_hot(batch) - log_all.exp()) * weight.unsqueeze(-1)};
  }

 private:
  double gamma_;
};

}  // namespace

Choice<Objective> focal_entry() {
  return entry_of<Focal>("cross-entropy with less weight on confidently classified samples (Lin 2017)");
}

}  // namespace fedgrab
