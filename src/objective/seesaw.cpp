/// Seesaw loss (Wang et al. 2021, Eq. 2 to 6): cross-entropy of z_j + log(M_yj C_yj) for j ≠ y. Mitigation M = min(1,
/// N_j/N_y)^p reduces the gradient on rare classes j from samples of more common ones; compensation C = max(1,
/// p_j/p_y)^q increases it again for misclassified samples. N are the samples that the client has seen so far, this
/// batch included.
#include <cmath>

#include "entries.h"

namespace fedgrab {
namespace {

struct SeesawParams {
  double p = 0.8, q = 2;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("p", p, "exponent of the mitigation factor (0: off)").between(0, 100);
    v.param("q", q, "exponent of the compensation factor (0: off)").between(0, 100);
  }
};

constexpr double smallest_share = 1e-2;  // of the label, in the compensation

class Seesaw : public Objective {
 public:
  using Params = SeesawParams;
  static constexpr const char* name = "seesaw";
  explicit Seesaw(Params params) : params_(params) {}

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& client_state) const override {
    if (params_.p == 0 && params_.q == 0) return softmax_loss(batch);
    const auto is_label = one_hot(batch);
    auto met = (batch.mask.defined() ? is_label * batch.mask.unsqueeze(-1) : is_label).sum(-2);
    auto& counts = client_state["seesaw.met"];
    if (!counts.defined()) counts = torch::zeros_like(met, torch::kDouble);
    counts.add_(met);
    const auto at_label = [&](const torch::Tensor& per_class) {
      return per_class.gather(-1, batch.labels.unsqueeze(-1));
    };

    const auto size = counts.clamp_min(1).log().to(batch.logits.scalar_type()).unsqueeze(-2).expand_as(batch.logits);
    const auto share = batch.logits.log_softmax(-1);
    const auto factor = params_.p * (size - at_label(size)).clamp_max(0) +
                        params_.q * (share - at_label(share).clamp_min(std::log(smallest_share))).clamp_min(0);
    LogitBatch tilted = batch;
    tilted.logits = batch.logits + factor;  // which is 0 at the label
    return softmax_loss(tilted);
  }

 private:
  SeesawParams params_;
};

}  // namespace

Choice<Objective> seesaw_entry() {
  return entry_of<Seesaw>("smaller negative gradients for rare classes, except from misclassified samples (Wang 2021)");
}

}  // namespace fedgrab
