/// GCL, Gaussian clouded logits (Li et al. 2022, Eq. 11): cross-entropy of s(cos_j − ν min(|ε|, 1) δ_j), ε ~ N(0, 1/3)
/// for every sample and class, δ_j = (log n_max − log n_j)/(log n_max − log n_min): the logits of rare classes are
/// blurred, so that their features spread out. Needs a cosine head; a class that the client lacks counts as one sample.
#include <cmath>

#include "entries.h"

namespace fedgrab {
namespace {

struct GclParams {
  double noise = 0.5, scale = 30;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("noise", noise, "amplitude of the noise on the cosine of the rarest class (0: cross-entropy)")
        .between(0, 2);
    v.param("scale", scale, "factor on the cosines").between(1e-3, 1e3);
  }
};

class Gcl : public Objective {
 public:
  using Params = GclParams;
  static constexpr const char* name = "gcl";
  explicit Gcl(Params params) : params_(params) {}
  Head head() const override { return cosine_head(params_.scale); }
  int64_t uniforms(int64_t batch, int64_t classes) const override { return batch * classes; }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& /*client_state*/) const override {
    if (params_.noise == 0) return softmax_loss(batch);
    const auto size = batch.counts.clamp_min(1).log();
    const auto below = size.amax(-1, true) - size;
    const auto delta = below / below.amax(-1, true).clamp_min(1e-12);
    const auto drawn = uniform(batch, batch.logits.size(-2) * batch.logits.size(-1)).view(batch.logits.sizes());
    const auto epsilon = (torch::erfinv(2 * drawn - 1) * (std::sqrt(2.0) / 3)).abs().clamp_max(1);
    LogitBatch clouded = batch;
    clouded.logits = batch.logits - epsilon * delta.unsqueeze(-2) * (params_.noise * params_.scale);
    return softmax_loss(clouded);
  }

 private:
  GclParams params_;
};

}  // namespace

Choice<Objective> gcl_entry() {
  return entry_of<Gcl>("Gaussian noise on the logits of rare classes, cosine head (Li 2022)");
}

}  // namespace fedgrab
