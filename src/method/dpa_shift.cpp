/// Logit adjustment after training (Menon et al. 2021), with the prior that DPA reads off the head itself: training is
/// FedAvg's; the model that is evaluated and handed out decides as if all classes were equally common.
#include "decision.h"
#include "entries.h"
#include "fedgrab/prior/prior.h"

namespace fedgrab {
namespace {

struct DpaShiftParams {
  double shift = -1;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("shift", shift,
            "how far the class with the shortest row is raised, in leads of a clear answer (less where norms differ by "
            "less than a factor of two); -1: 0.4 for up to 40 classes, else 0.2")
        .between(-1, 1e3);
  }
};

class DpaShift : public Method {
 public:
  using Params = DpaShiftParams;
  static constexpr const char* name = "dpa-shift";
  DpaShift(LocalLoss loss, Params params) : Method(std::move(loss)), params_(params) {}

  State deployed(const State& global, const TensorMap& /*memory*/) const override {
    const auto rows = global.view(global.model->heads.front().name + ".weight");
    // The more classes, the closer their logits lie, and the less it takes (results/fedgrab.md).
    const double shift = params_.shift >= 0 ? params_.shift : global.model->classes <= 40 ? 0.4 : 0.2;
    return with_balanced_decision(global, prior_from_weights(rows, "max"), shift);
  }

 private:
  DpaShiftParams params_;
};

}  // namespace

MethodEntry dpa_shift_entry() {
  return entry_of<DpaShift, linear_loss>(
      groups::long_tailed, "FedAvg, with the decision shifted by what DPA reads off its head (Menon 2021, post hoc)");
}

}  // namespace fedgrab
