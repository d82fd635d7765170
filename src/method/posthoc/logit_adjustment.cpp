/// Logit adjustment after training (Menon et al. 2021): z_j − τ log π_j, π the estimated class prior.
#include "class_offset.h"
#include "entries.h"
#include "fedgrab/prior/prior.h"
#include "fitting.h"

namespace fedgrab {
namespace {

const std::string fitted_tau = "posthoc.tau";

struct LogitAdjustmentParams {
  double tau = 1;
  bool fit = false;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("tau", tau, "strength: 1 is the theoretical value after cross-entropy training, 0 adjusts nothing")
        .between(0, 100);
    v.param("fit", fit, "fit tau by class-balanced cross-entropy");
  }
};

class LogitAdjustment : public PosthocClassifier {
 public:
  using Params = LogitAdjustmentParams;
  static constexpr const char* name = "logit-adjustment";
  explicit LogitAdjustment(Params params) : params_(params) {}

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    return {.logits = params_.fit, .prior = true};
  }
  void fit(const LabelledLogits& images, const torch::Tensor& prior, TensorMap& server) const override {
    if (prior.defined())
      server[fitted_tau] = torch::tensor(fit_tau(images.logits, images.labels, log_share(prior)), torch::kDouble);
  }
  State deploy(const State& model, const torch::Tensor& prior, const TensorMap& server) const override {
    return prior.defined() ? with_offset(model, log_share(prior) * -tau(server)) : model;
  }
  PosthocNumbers numbers(const TensorMap& server) const override { return {{"tau", {tau(server)}}}; }

 private:
  double tau(const TensorMap& server) const {
    const auto fitted = server.find(fitted_tau);
    return params_.fit && fitted != server.end() ? fitted->second.item<double>() : params_.tau;
  }
  static torch::Tensor log_share(const torch::Tensor& prior) {
    return scale_prior(prior.to(torch::kFloat).cpu(), PriorScale::share).clamp_min(1e-6).log();
  }

  LogitAdjustmentParams params_;
};

}  // namespace

Choice<PosthocClassifier> logit_adjustment_entry() {
  return choice_of<PosthocClassifier, LogitAdjustment>("posthoc",
                                                       "log class prior subtracted from the logits (Menon 2021)");
}

}  // namespace fedgrab
