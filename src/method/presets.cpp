#include "fedgrab/method/presets.h"

#include "fedgrab/core/registry.h"

namespace fedgrab {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

constexpr const char* federated = "federated learning";
constexpr const char* optimisers = "against client drift, and server optimisers";
constexpr const char* long_tailed = "for the long tail";
constexpr const char* losses = "FedAvg with a loss for the long tail (also: any --method with --objective)";
constexpr const char* centralised = "centralised training: the upper bound";

/// Fed-GraB's parts, and what a variant changes of them.
Values fedgrab(const Values& changes) {
  Values values{{"objective.name", "sgb"}, {"prior.source", "dpa"}, {"prior.scale", "rank"}};
  for (const auto& change : changes) {
    std::erase_if(values, [&](const auto& value) { return value.first == change.first; });
    values.push_back(change);
  }
  return values;
}

Values central(const std::string& loss) { return {{"partition.kind", "central"}, {"objective.name", loss}}; }

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> entries{
      {"fedavg", federated, "weighted average of the clients' models (McMahan 2017)"},
      {"fedprox", federated, "proximal term towards the global model (Li 2020)", {{"client.algorithm", "prox"}}},
      {"fednova",
       federated,
       "updates are divided by each client's number of steps before averaging (Wang 2020)",
       {{"server.aggregator", "nova"}}},
      {"fedir",
       federated,
       "samples weighted towards the federation's class shares (Hsu 2020)",
       {{"objective.reweight", "importance"}}},
      {"scaffold",
       optimisers,
       "control variates against client drift (Karimireddy 2020)",
       {{"client.algorithm", "scaffold"}}},
      {"feddyn",
       optimisers,
       "dynamic regulariser (Acar 2021)",
       {{"client.algorithm", "dyn"}, {"server.weights", "uniform"}}},
      {"moon",
       optimisers,
       "contrastive loss on features against the global and the previous local model (Li 2021)",
       {{"client.algorithm", "moon"}}},
      {"fedavgm", optimisers, "momentum at the server (Hsu 2019)", {{"server.optimizer", "momentum"}}},
      {"fedadagrad", optimisers, "Adagrad at the server (Reddi 2021)", {{"server.optimizer", "adagrad"}}},
      {"fedadam", optimisers, "Adam at the server (Reddi 2021)", {{"server.optimizer", "adam"}}},
      {"fedyogi", optimisers, "Yogi at the server (Reddi 2021)", {{"server.optimizer", "yogi"}}},
      {"fedgrab+",
       long_tailed,
       "the default: balanced softmax, server momentum, decaying learning rate, bias calibration",
       {{"objective.name", "balanced-softmax"},
        {"server.optimizer", "momentum"},
        {"server.beta1", "0.8"},
        {"train.schedule", "cosine"},
        {"train.weight_decay", "5e-4"},
        {"posthoc.kind", "bias-calibration"}}},
      {"fedgrab", long_tailed, "gradient balancers (SGB) with a class prior (DPA) (Xiao 2023)",
       fedgrab({{"head.init", "etf"}, {"head.frozen", "true"}, {"prior.dpa.decay", "0.5"}})},
      {"fedgrab-published", long_tailed, "Fed-GraB as in the code of its authors",
       fedgrab({{"head.init", "client-mean"},
                {"head.frozen", "true"},
                {"prior.source", "fixed"},
                {"objective.sgb.gate", "stalled"},
                {"objective.sgb.form", "sigmoid"},
                {"objective.sgb.clamp", "0"},
                {"objective.sgb.conditional_integration", "false"},
                {"server.weights", "shuffled"}})},
      {"fedgrab-paper", long_tailed, "Fed-GraB as in the paper",
       fedgrab({{"prior.dpa.head", "classifier"},
                {"prior.scale", "share"},
                {"objective.sgb.form", "softmax"},
                {"objective.sgb.clamp", "0"},
                {"objective.sgb.conditional_integration", "false"}})},
      {"creff",
       long_tailed,
       "classifier re-trained by the server on features that match client gradients (Shang 2022)",
       {{"posthoc.kind", "creff"}}},
      {"tau-norm",
       long_tailed,
       "FedAvg with classifier weight norms set to 1 after training (Kang 2020)",
       {{"posthoc.kind", "tau-norm"}}},
      {"dpa-shift",
       long_tailed,
       "FedAvg with logits adjusted after training by DPA's prior (Menon 2021)",
       {{"posthoc.kind", "logit-adjustment"}, {"prior.source", "dpa"}, {"prior.dpa.head", "classifier"}}},
      {"fedetf",
       long_tailed,
       "frozen simplex classifier with balanced softmax (Li 2023)",
       {{"objective.name", "balanced-softmax"},
        {"head.kind", "cosine"},
        {"head.init", "etf"},
        {"head.frozen", "true"},
        {"head.projected", "true"}}},
      {"fedloge",
       long_tailed,
       "frozen sparse classifier with re-aligned global and local heads (Xiao 2024)",
       {{"head.init", "sparse-etf"}, {"head.frozen", "true"}, {"posthoc.kind", "aligned"}}},
      {"eqlv2", losses, "weights by accumulated gradients (Tan 2021)", {{"objective.name", "eqlv2"}}},
      {"ldam", losses, "margins by class size (Cao 2019)", {{"objective.name", "ldam"}}},
      {"focal", losses, "less weight on confidently classified samples (Lin 2017)", {{"objective.name", "focal"}}},
      {"gcl", losses, "Gaussian noise on the logits of rare classes (Li 2022)", {{"objective.name", "gcl"}}},
      {"seesaw", losses, "smaller negative gradients for rare classes (Wang 2021)", {{"objective.name", "seesaw"}}},
      {"fedlc", losses, "margins by the client's own counts (Zhang 2022)", {{"objective.name", "fedlc"}}},
      {"balanced-softmax",
       losses,
       "logits adjusted by the client's own counts (Ren 2020)",
       {{"objective.name", "balanced-softmax"}}},
      {"logit-adjustment",
       losses,
       "logits adjusted by DPA's prior in training (Menon 2021)",
       {{"objective.name", "balanced-softmax"}, {"prior.source", "dpa"}, {"objective.class_sizes", "prior"}}},
      {"class-balanced", losses, "clients sample their classes uniformly", {{"train.sampling", "class-balanced"}}},
      {"central", centralised, "softmax, or any --objective", central("softmax")},
      {"central-eqlv2", centralised, "EQL v2", central("eqlv2")},
      {"central-ldam", centralised, "LDAM", central("ldam")},
      {"sgb-cl", centralised, "gradient balancers (SGB)", central("sgb")},
  };
  return entries;
}

const Preset& find_preset(const std::string& name) {
  return find_in(presets(), "method.name", name, "`fedgrab run --method help` lists them");
}

}  // namespace fedgrab
