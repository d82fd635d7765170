/// Logit adjustment after training (Menon et al. 2021): z_j − τ log π_j, π the estimated class prior. For a linear head
/// it becomes part of the bias.
#include "entries.h"
#include "fedgrab/prior/prior.h"

namespace fedgrab {
namespace {

struct LogitAdjustmentParams {
  double tau = 1;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("tau", tau, "strength: 1 after plain softmax training, 0 leaves the logits unadjusted").between(0, 100);
  }
};

class LogitAdjustment : public PosthocClassifier {
 public:
  using Params = LogitAdjustmentParams;
  static constexpr const char* name = "logit-adjustment";
  explicit LogitAdjustment(Params params) : tau_(params.tau) {}

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    return {.linear_head = true, .prior = true};
  }

  State deploy(const State& model, const torch::Tensor& prior, const TensorMap& /*server*/) const override {
    if (!prior.defined()) return model;
    State changed = model.clone();
    const Head& head = model.model->heads.front();
    auto bias = changed.view(head.name + ".bias");
    const auto share = scale_prior(prior.to(torch::kFloat).cpu(), PriorScale::share);
    bias.sub_(share.clamp_min(1e-6).log().to(bias.device()), tau_ / head.scale);
    return changed;
  }

 private:
  double tau_;
};

}  // namespace

Choice<PosthocClassifier> logit_adjustment_entry() {
  return choice_of<PosthocClassifier, LogitAdjustment>("posthoc",
                                                       "log class prior subtracted from the logits (Menon 2021)");
}

}  // namespace fedgrab
