/// LDAM (Cao et al. 2019, Eq. 13): cross-entropy of s(cos_j − 1[j = y] m_j) with margins m_j = C n_j^(−1/4), the
/// largest of them `max_margin`: rarer classes have larger margins. Needs a cosine head; a class that the client lacks
/// counts as one sample.
#include "entries.h"

namespace fedgrab {
namespace {

struct LdamParams {
  double max_margin = 0.5, scale = 30;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("max_margin", max_margin, "margin of the rarest class, as a cosine (0: cross-entropy)").between(0, 2);
    v.param("scale", scale, "factor on the cosines").between(1e-3, 1e3);
  }
};

class Ldam : public Objective {
 public:
  using Params = LdamParams;
  static constexpr const char* name = "ldam";
  explicit Ldam(Params params) : params_(params) {}
  Head head() const override { return cosine_head(params_.scale); }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& /*client_state*/) const override {
    if (params_.max_margin == 0) return softmax_loss(batch);
    const auto root = batch.counts.clamp_min(1).pow(-0.25);
    const auto margin = root / root.amax(-1, true) * (params_.max_margin * params_.scale);
    LogitBatch pushed = batch;
    pushed.logits = batch.logits - one_hot(batch) * margin.unsqueeze(-2);
    return softmax_loss(pushed);
  }

 private:
  LdamParams params_;
};

}  // namespace

Choice<Objective> ldam_entry() { return entry_of<Ldam>("margins by class size on a cosine head (Cao 2019)"); }

}  // namespace fedgrab
