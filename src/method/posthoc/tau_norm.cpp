/// τ-normalisation (Kang et al. 2020, Eq. 2): w_j ← w_j/‖w_j‖^τ in the deployed classifier, since the weight norms of
/// rare classes stay small.
#include "entries.h"

namespace fedgrab {
namespace {

struct TauNormParams {
  double tau = 1;
  bool drop_bias = false;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("tau", tau, "exponent: 0 keeps the classifier, 1 gives all weight vectors norm 1").between(0, 10);
    v.param("drop_bias", drop_bias, "the deployed classifier has no bias, as in the authors' code");
  }
};

class TauNorm : public PosthocClassifier {
 public:
  using Params = TauNormParams;
  static constexpr const char* name = "tau-norm";
  explicit TauNorm(Params params) : params_(params) {}

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    return {.linear_head = true};
  }

  State deploy(const State& model, const torch::Tensor& /*prior*/, const TensorMap& /*server*/) const override {
    State changed = model.clone();
    const Head& head = model.model->heads.front();
    if (params_.tau != 0) {
      auto weight = changed.view(head.name + ".weight");
      weight.div_(weight.norm(2, {1}, true).clamp_min(1e-12).pow(params_.tau));
    }
    if (params_.drop_bias && head.bias) changed.view(head.name + ".bias").zero_();
    return changed;
  }
  PosthocNumbers numbers(const TensorMap& /*server*/) const override { return {{"tau", {params_.tau}}}; }

 private:
  TauNormParams params_;
};

}  // namespace

Choice<PosthocClassifier> tau_norm_entry() {
  return choice_of<PosthocClassifier, TauNorm>("posthoc", "classifier weight norms set to 1 (Kang 2020)");
}

}  // namespace fedgrab
