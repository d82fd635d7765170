#include <fmt/format.h>

#include "entries.h"
#include "fedgrab/core/error.h"
#include "fedgrab/objective/balancer.h"

namespace fedgrab {
namespace {

/// An objective without memory.
class PlainObjective : public Objective {
 public:
  explicit PlainObjective(LogitLoss (*rule)(const LogitBatch&)) : rule_(rule) {}
  std::optional<KernelForm> kernel_form() const override { return KernelForm{.sigmoid = rule_ == sigmoid_loss}; }

 protected:
  LogitLoss evaluate(const LogitBatch& batch, TensorMap& /*memory*/) const override { return rule_(batch); }

 private:
  LogitLoss (*rule_)(const LogitBatch&);
};

}  // namespace

const std::vector<ObjectiveEntry>& objectives() {
  static const std::vector<ObjectiveEntry> entries{
      {"softmax", "cross-entropy of the softmax",
       [](const Config&) -> std::unique_ptr<Objective> { return std::make_unique<PlainObjective>(softmax_loss); }},
      {"sigmoid", "binary cross-entropy, one per class",
       [](const Config&) -> std::unique_ptr<Objective> { return std::make_unique<PlainObjective>(sigmoid_loss); }},
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
  std::vector<std::string> names;
  for (const auto& entry : objectives()) {
    if (entry.name == name) return entry.make(config);
    names.push_back(entry.name);
  }
  const std::string near = nearest(name, names);
  throw Error(Fault::usage, "objective.name", fmt::format("unknown objective \"{}\"", name),
              near.empty() ? "`fedgrab run --objective help` lists them" : fmt::format("did you mean {}?", near));
}

void declare_objectives(Schema& schema) {
  for (const auto& entry : objectives())
    if (entry.declare != nullptr) entry.declare(schema);
}

}  // namespace fedgrab
