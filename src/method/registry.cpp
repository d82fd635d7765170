#include <fmt/format.h>

#include "entries.h"
#include "fedgrab.h"
#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

std::unique_ptr<Method> make_fedavg(const Config& config) { return std::make_unique<Method>(chosen_objective(config)); }

class Central : public Method {
 public:
  using Method::Method;
  bool centralised() const override { return true; }
};

std::unique_ptr<Method> make_central(const Config& config) {
  return std::make_unique<Central>(chosen_objective(config));
}

std::unique_ptr<Method> make_fedgrab(const Config& config) {
  const auto objective = config.read<ObjectiveParams>("objective").name;
  if (objective != "auto" && objective != "sgb")
    throw Error(Fault::usage, "objective.name",
                fmt::format("\"{}\" cannot be set, fedgrab brings its own loss", objective),
                "leave it out, or choose --method fedavg");
  return std::make_unique<FedGrab>(config.read<FedGrabParams>("method.fedgrab"),
                                   config.read<BalancerParams>("objective.sgb"));
}

}  // namespace

const std::vector<MethodEntry>& methods() {
  static const std::vector<MethodEntry> entries{
      {"fedavg", "federated", "weighted average of the clients' models (McMahan 2017)", make_fedavg},
      fedprox_entry(),
      fednova_entry(),
      fedavgm_entry(),
      fedadagrad_entry(),
      fedadam_entry(),
      fedyogi_entry(),
      {"fedgrab", "federated", "gradient balancers (SGB) steered by a class prior (DPA), Xiao 2023", make_fedgrab,
       [](Schema& schema) { schema.add<FedGrabParams>("method.fedgrab"); }},
      {"fedgrab-published",
       "federated",
       "preset: Fed-GraB as in the code its authors published",
       make_fedgrab,
       nullptr,
       {{"method.fedgrab.head", "frozen-mean"},
        {"method.fedgrab.prior", "published"},
        {"method.fedgrab.shuffled_weights", "true"},
        {"objective.sgb.form", "sigmoid"},
        {"objective.sgb.clamp", "0"}}},
      {"fedgrab-paper",
       "federated",
       "preset: Fed-GraB to the letter of the paper",
       make_fedgrab,
       nullptr,
       {{"method.fedgrab.head", "trained"},
        {"method.fedgrab.prior", "head"},
        {"method.fedgrab.prior_scale", "share"},
        {"objective.sgb.form", "softmax"},
        {"objective.sgb.clamp", "0"}}},
      {"central", "centralised", "all data in one place: the upper bound", make_central},
  };
  return entries;
}

const MethodEntry& find_method(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& entry : methods()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  const std::string near = nearest(name, names);
  throw Error(Fault::usage, "method.name", fmt::format("unknown method \"{}\"", name),
              near.empty() ? "`fedgrab run --method help` lists them" : fmt::format("did you mean {}?", near));
}

void declare_methods(Schema& schema) {
  schema.add<MethodParams>("method");
  for (const auto& entry : methods())
    if (entry.declare != nullptr) entry.declare(schema);
  schema.add<ObjectiveParams>("objective");
  declare_objectives(schema);
}

std::unique_ptr<Objective> chosen_objective(const Config& config, const std::string& fallback) {
  const auto name = config.read<ObjectiveParams>("objective").name;
  return make_objective(name == "auto" ? fallback : name, config);
}

}  // namespace fedgrab
