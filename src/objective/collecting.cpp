#include "entries.h"

namespace fedgrab {
namespace {

const std::string positive = "collected.positive", negative = "collected.negative";

class Collecting : public Objective {
 public:
  explicit Collecting(std::unique_ptr<Objective> loss) : loss_(std::move(loss)) {}
  std::string one_label_reason() const override { return splits_by_sign; }
  Head head() const override { return loss_->head(); }
  int64_t uniforms(int64_t batch, int64_t classes) const override { return loss_->uniforms(batch, classes); }

  Diagnostics diagnose(const TensorMap& client_state) const override {
    auto found = loss_->diagnose(client_state);
    if (client_state.contains(positive))
      found.try_emplace("delta", to_vector(client_state.at(positive) - client_state.at(negative)));
    return found;
  }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& client_state) const override {
    auto result = (*loss_)(batch, client_state);
    // The gradient is negative at the label and nowhere else.
    per_class(client_state, positive, batch).sub_(result.gradient.clamp_max(0).sum(-2));
    per_class(client_state, negative, batch).add_(result.gradient.clamp_min(0).sum(-2));
    return result;
  }

 private:
  std::unique_ptr<Objective> loss_;
};

}  // namespace

std::unique_ptr<Objective> collecting(std::unique_ptr<Objective> loss) {
  return std::make_unique<Collecting>(std::move(loss));
}

}  // namespace fedgrab
