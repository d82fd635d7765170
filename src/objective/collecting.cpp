#include "entries.h"

namespace fedgrab {
namespace {

const std::string positive = "collected.positive", negative = "collected.negative";

class Collecting : public Objective {
 public:
  explicit Collecting(std::unique_ptr<Objective> loss) : loss_(std::move(loss)) {}
  Head head() const override { return loss_->head(); }
  int64_t uniforms(int64_t batch, int64_t classes) const override { return loss_->uniforms(batch, classes); }
  void begin_round(TensorMap& memory) const override { loss_->begin_round(memory); }

  Diagnostics diagnose(const TensorMap& memory) const override {
    auto found = loss_->diagnose(memory);
    if (memory.contains(positive)) found.try_emplace("delta", to_vector(memory.at(positive) - memory.at(negative)));
    return found;
  }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& memory) const override {
    auto result = (*loss_)(batch, memory);
    // The gradient is negative at the label and nowhere else.
    per_class(memory, positive, batch).sub_(result.gradient.clamp_max(0).sum(-2));
    per_class(memory, negative, batch).add_(result.gradient.clamp_min(0).sum(-2));
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
