/// EQL v2 (Tan et al. 2021, Eq. 5 to 7): binary cross-entropy per class, its positive part weighted by 1 + α(1 − f(r)),
/// its negative part by f(r) = σ(γ(r − μ)), with r_j the ratio of the weighted positive to the weighted negative
/// gradient that class j has accumulated. The weights of a step follow from the state before it. No counts are used.
#include "entries.h"

namespace fedgrab {
namespace {

struct EqlV2Params {
  double gamma = 12, mu = 0.8, alpha = 4;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("gamma", gamma, "slope of the weight as a function of the gradient ratio").between(0, 1000);
    v.param("mu", mu, "gradient ratio at which negatives have weight 0.5").between(0, 100);
    v.param("alpha", alpha, "largest additional weight of positives").between(0, 1000);
  }
};

constexpr double ratio_at_start = 100;  // before anything is accumulated; gives both weights 1

class EqlV2 : public Objective {
 public:
  using Params = EqlV2Params;
  static constexpr const char* name = "eqlv2";
  explicit EqlV2(Params params) : params_(params) {}
  std::string one_label_reason() const override { return splits_by_sign; }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& client_state) const override {
    auto& positive = per_class(client_state, "eqlv2.positive", batch);
    auto& negative = per_class(client_state, "eqlv2.negative", batch);
    const auto ratio =
        torch::where(negative > 0, positive / (negative + 1e-10), torch::full_like(negative, ratio_at_start));
    const auto weight_negative = torch::sigmoid(params_.gamma * (ratio - params_.mu));
    const auto weight_positive = 1 + params_.alpha * (1 - weight_negative);

    const auto& z = batch.logits;
    const auto is_label = one_hot(batch);
    const auto type = z.scalar_type();
    const auto weight = torch::where(is_label > 0, weight_positive.to(type).unsqueeze(-2).expand_as(z),
                                     weight_negative.to(type).unsqueeze(-2).expand_as(z));
    const auto mean = mean_weights(batch).unsqueeze(-1);
    const auto slope = weight * (torch::sigmoid(z) - is_label);
    const auto counted = batch.mask.defined() ? slope * batch.mask.unsqueeze(-1) : slope;
    positive.sub_(counted.clamp_max(0).sum(-2));
    negative.add_(counted.clamp_min(0).sum(-2));
    // log(1 + e^z) − z at the label
    const auto loss = weight * (torch::softplus(z) - z * is_label);
    return {(loss * mean).sum({-2, -1}), slope * mean};
  }

 private:
  EqlV2Params params_;
};

}  // namespace

Choice<Objective> eqlv2_entry() {
  return entry_of<EqlV2>("weights by the ratio of accumulated positive and negative gradients (Tan 2021)");
}

}  // namespace fedgrab
