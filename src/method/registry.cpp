#include <fmt/format.h>

#include "entries.h"
#include "fedgrab.h"
#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

std::unique_ptr<Method> make_fedavg(const Config& config) { return std::make_unique<Method>(chosen_loss(config)); }

class Central : public Method {
 public:
  using Method::Method;
  bool centralised() const override { return true; }
  // Nothing is sent anywhere.
  std::vector<Contribution> contribute(const ClientView& view, const LocalResult& result) const override {
    auto sent = Method::contribute(view, result);
    for (auto& one : sent) one.bytes = 0;
    return sent;
  }
  int64_t bytes_down(const Model& /*model*/) const override { return 0; }
};

std::unique_ptr<Method> make_central(const Config& config) { return std::make_unique<Central>(chosen_loss(config)); }

std::unique_ptr<Method> make_fedgrab(const Config& config) {
  const auto objective = config.read<ObjectiveParams>("objective").name;
  if (objective != "auto" && objective != "sgb")
    throw Error(Fault::usage, "objective.name",
                fmt::format("\"{}\" cannot be set, fedgrab brings its own loss", objective),
                "leave it out, or choose --method fedavg");
  return std::make_unique<FedGrab>(config.read<FedGrabParams>("method.fedgrab"),
                                   config.read<BalancerParams>("objective.sgb"));
}

/// FedAvg with another loss: a row of its own in every table.
MethodEntry with_loss(const char* name, const char* loss, const char* summary, const char* prior = "local") {
  MethodEntry entry{name, groups::losses, summary, make_fedavg};
  entry.preset = {{"objective.name", loss}, {"prior.source", prior}};
  return entry;
}

/// Fed-GraB with other values.
MethodEntry fedgrab_preset(const char* name, const char* summary,
                           std::vector<std::pair<std::string, std::string>> values) {
  MethodEntry entry{name, groups::long_tailed, summary, make_fedgrab};
  entry.preset = std::move(values);
  return entry;
}

MethodEntry central_with(const char* name, const char* loss, const char* summary) {
  MethodEntry entry{name, groups::centralised, summary, make_central};
  entry.preset = {{"objective.name", loss}};
  return entry;
}

}  // namespace

const std::vector<MethodEntry>& methods() {
  static const std::vector<MethodEntry> entries{
      {"fedavg", groups::federated, "weighted average of the clients' models (McMahan 2017)", make_fedavg},
      fedprox_entry(),
      fednova_entry(),
      fedir_entry(),
      scaffold_entry(),
      feddyn_entry(),
      moon_entry(),
      fedavgm_entry(),
      fedadagrad_entry(),
      fedadam_entry(),
      fedyogi_entry(),
      {"fedgrab", groups::long_tailed, "gradient balancers (SGB) steered by a class prior (DPA), Xiao 2023",
       make_fedgrab, [](Schema& schema) { schema.add<FedGrabParams>("method.fedgrab"); }},
      fedgrab_preset("fedgrab-published", "preset: Fed-GraB as in the code its authors published",
                     {{"method.fedgrab.head", "frozen-mean"},
                      {"method.fedgrab.prior", "published"},
                      {"method.fedgrab.shuffled_weights", "true"},
                      {"objective.sgb.form", "sigmoid"},
                      {"objective.sgb.clamp", "0"},
                      {"objective.sgb.hold", "false"},
                      {"method.fedgrab.shift", "0"}}),
      fedgrab_preset("fedgrab-paper", "preset: Fed-GraB to the letter of the paper",
                     {{"method.fedgrab.head", "trained"},
                      {"method.fedgrab.prior", "head"},
                      {"method.fedgrab.prior_scale", "share"},
                      {"objective.sgb.form", "softmax"},
                      {"objective.sgb.clamp", "0"},
                      {"objective.sgb.hold", "false"},
                      {"method.fedgrab.shift", "0"}}),
      creff_entry(),
      tau_norm_entry(),
      dpa_shift_entry(),
      fedetf_entry(),
      fedloge_entry(),
      with_loss("eqlv2", "eqlv2", "preset: weights by collected gradients (Tan 2021)"),
      with_loss("ldam", "ldam", "preset: margins by class size (Cao 2019)"),
      with_loss("focal", "focal", "preset: looks away from what is recognised already (Lin 2017)"),
      with_loss("gcl", "gcl", "preset: Gaussian clouds on the logits (Li 2022)"),
      with_loss("seesaw", "seesaw", "preset: rare classes are punished less (Wang 2021)"),
      with_loss("fedlc", "fedlc", "preset: margins by the client's own counts (Zhang 2022)"),
      with_loss("balanced-softmax", "balanced-softmax", "preset: shifted by the client's own counts (Ren 2020)"),
      with_loss("logit-adjustment", "balanced-softmax", "preset: shifted by what DPA reads (Menon 2021)", "dpa"),
      {"class-balanced",
       groups::losses,
       "preset: clients draw every class they have equally often",
       make_fedavg,
       nullptr,
       {{"train.sampling", "class-balanced"}}},
      {"central", groups::centralised, "softmax, or any --objective", make_central},
      central_with("central-eqlv2", "eqlv2", "preset: EQL v2"),
      central_with("central-ldam", "ldam", "preset: LDAM"),
      central_with("sgb-cl", "sgb", "preset: gradient balancers in central training"),
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
  schema.add<PriorParams>("prior");
}

LocalLoss chosen_loss(const Config& config, const std::string& fallback) {
  const auto params = config.read<ObjectiveParams>("objective");
  auto objective = make_objective(params.name == "auto" ? fallback : params.name, config);
  if (params.collect) objective = collecting(std::move(objective));
  return {std::move(objective), config.read<PriorParams>("prior")};
}

LocalLoss linear_loss(const Config& config, const std::string& fallback) {
  auto loss = chosen_loss(config, fallback);
  if (loss.objective->head().kind != HeadKind::linear)
    throw Error(Fault::usage, "objective.name",
                fmt::format("\"{}\" needs a cosine head, and {} brings a head of its own",
                            config.read<ObjectiveParams>("objective").name, config.read<MethodParams>("method").name),
                "choose another loss, or --method fedavg");
  return loss;
}

}  // namespace fedgrab
