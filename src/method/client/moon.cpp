/// MOON (Li et al. 2021, Eq. 3): beside its loss a client minimises −μ log(e^{s(z, z_glob)/τ} / (e^{s(z, z_glob)/τ} +
/// e^{s(z, z_prev)/τ})), s the cosine between the features z of a sample and those the global model and the client's
/// own previous one give it. The features are the backbone's: there is no projection head. A client that has no
/// previous model takes the global one, and the term has no gradient. The previous model stays with its client, see
/// engine.client_memory.
#include "entries.h"

namespace fedgrab {
namespace {

struct MoonParams {
  double mu = 1, tau = 0.5;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("mu", mu, "weight of the contrastive loss").between(0, 1e3);
    v.param("tau", tau, "temperature of the cosines").between(1e-3, 1e3);
  }
};

const std::string previous = "moon.previous";

/// Cosine of each pair of rows, and its gradient in the first.
struct Similarity {
  torch::Tensor value, slope;
};
Similarity similarity(const torch::Tensor& a, const torch::Tensor& b) {
  const auto length = [](const torch::Tensor& v) { return v.norm(2, {-1}, true).clamp_min(1e-8); };
  const auto unit_a = a / length(a), unit_b = b / length(b);
  const auto cosine = (unit_a * unit_b).sum(-1, true);
  return {cosine, (unit_b - cosine * unit_a) / length(a)};
}

class ModelContrast : public FeatureLoss {
 public:
  explicit ModelContrast(MoonParams params) : params_(params) {}

  LogitLoss operator()(const torch::Tensor& features, const std::vector<torch::Tensor>& references,
                       const LogitBatch& batch) const override {
    const torch::NoGradGuard no_graph;
    const auto global = similarity(features, references[0]), own = similarity(features, references[1]);
    const auto mean = mean_weights(batch).unsqueeze(-1) * params_.mu;
    const auto ahead = (own.value - global.value) / params_.tau;  // loss = log(1 + e^ahead)
    const auto loss = torch::softplus(ahead) * mean;
    return {loss.sum({-2, -1}), torch::sigmoid(ahead) * (own.slope - global.slope) * (mean / params_.tau)};
  }

 private:
  MoonParams params_;
};

class Moon : public ClientAlgorithm {
 public:
  using Params = MoonParams;
  static constexpr const char* name = "moon";
  explicit Moon(Params params) : params_(params), contrast_(params) {}

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    if (params_.mu == 0) return {};
    return {.hard_labels = "client.algorithm = \"moon\" compares the features of whole images"};
  }
  void configure(const ClientContext& client, LocalProblem& problem) const override {
    if (params_.mu == 0) return;
    const auto& global = client.round.global.flat;
    const auto own = client.state.find(previous);
    problem.feature_loss = &contrast_;
    problem.reference_models = {global, own == client.state.end() ? global : own->second};
  }

  std::vector<Payload> after_training(const ClientContext& client, const LocalResult& result) const override {
    if (params_.mu != 0) client.state[previous] = result.local.flat.cpu().clone();
    return {};
  }

 private:
  MoonParams params_;
  ModelContrast contrast_;
};

}  // namespace

Choice<ClientAlgorithm> moon_entry() {
  return choice_of<ClientAlgorithm, Moon>(
      "client", "contrastive loss on features against the global and the previous local model (MOON, Li 2021)");
}

}  // namespace fedgrab
