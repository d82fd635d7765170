#include "entries.h"
#include "fedgrab/objective/balancer.h"

namespace fedgrab {
namespace {

/// A base loss.
class BaseObjective : public Objective {
 public:
  explicit BaseObjective(LogitLoss (*rule)(const LogitBatch&)) : rule_(rule) {}
  std::optional<KernelForm> kernel_form() const override { return KernelForm{.sigmoid = rule_ == sigmoid_loss}; }
  std::string one_label_reason() const override { return {}; }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& /*client_state*/) const override { return rule_(batch); }

 private:
  LogitLoss (*rule_)(const LogitBatch&);
};

}  // namespace

const std::vector<Choice<Objective>>& objectives() {
  static const std::vector<Choice<Objective>> entries{
      {"softmax", "cross-entropy of the softmax",
       [](const Config&) -> std::unique_ptr<Objective> { return std::make_unique<BaseObjective>(softmax_loss); }},
      {"sigmoid", "binary cross-entropy, one per class",
       [](const Config&) -> std::unique_ptr<Objective> { return std::make_unique<BaseObjective>(sigmoid_loss); }},
      focal_entry(),
      balanced_softmax_entry(),
      fedlc_entry(),
      ldam_entry(),
      gcl_entry(),
      eqlv2_entry(),
      seesaw_entry(),
      {"sgb", "self-adjusting gradient balancer, a PID controller per class",
       [](const Config& config) -> std::unique_ptr<Objective> {
         return std::make_unique<BalancedObjective>(config.read<BalancerParams>("objective.sgb"));
       },
       [](Schema& schema) { schema.add<BalancerParams>("objective.sgb"); }},
  };
  return entries;
}

std::unique_ptr<Objective> make_objective(const std::string& name, const Config& config) {
  return find_in(objectives(), "objective.name", name, "`fedgrab run --objective help` lists them").make(config);
}

}  // namespace fedgrab
