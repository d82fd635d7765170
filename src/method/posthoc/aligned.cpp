/// Head re-alignment of FedLoGe (Xiao et al. 2024). Beside a fixed classifier, on detached features, a global auxiliary
/// head is trained and averaged, and every client trains a local head that it keeps. Deployed: the auxiliary head with
/// rows of equal norm (LA-G). A client for itself: the local head plus the rows of the auxiliary head, scaled by the
/// norms of the local ones (LA-L), without the classes of which it has no samples.
#include "entries.h"

namespace fedgrab {
namespace {

struct AlignedParams {
  double norm = 1.7;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("norm", norm, "weight norm of the auxiliary head in the deployed model").between(1e-3, 1e3);
  }
};

constexpr float never = -1e4F;  // logit of a class without samples at the client
const std::string local_weight = "fedloge.weight", local_bias = "fedloge.bias";

class Aligned : public PosthocClassifier {
 public:
  using Params = AlignedParams;
  static constexpr const char* name = "aligned";
  explicit Aligned(Params params) : params_(params) {}

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    return {
        .auxiliary = {{.name = "aux", .detached = true}, {.name = "local", .role = Role::personal, .detached = true}},
        .own_start = OwnStart::always,
        .linear_head = true,
        .plain_head = true};
  }
  void before_training(const ClientContext& client, State& local, const LabelledFeatures* /*own*/) const override {
    for (const auto& [parameter, kept] :
         {std::pair("local.weight", local_weight), std::pair("local.bias", local_bias)}) {
      const auto found = client.state.find(kept);
      if (found != client.state.end())
        local.view(parameter).copy_(found->second);
      else  // of its own from the start
        fedgrab::initialise(local.view(parameter), local.model->find(parameter), client.round.seed,
                            static_cast<uint32_t>(client.client + 1));
    }
  }
  std::vector<Payload> after_training(const ClientContext& client, const LocalResult& result) const override {
    client.state[local_weight] = result.local.view("local.weight").cpu().clone();
    client.state[local_bias] = result.local.view("local.bias").cpu().clone();
    return {};
  }

  State deploy(const State& model, const torch::Tensor& /*prior*/, const TensorMap& /*server*/) const override {
    State changed = model.clone();
    const auto rows = model.view("aux.weight");
    changed.view("fc.weight").copy_(rows / norm_of(rows) * params_.norm);
    changed.view("fc.bias").copy_(model.view("aux.bias"));
    return changed;
  }

  State personalise(const ClientContext& client, const State& local) const override {
    State changed = local.clone();
    const auto own = local.view("local.weight");
    const auto received = [&](const char* parameter) { return client.round.global.view(parameter).to(own.device()); };
    changed.view("fc.weight").copy_(own + received("aux.weight") * norm_of(own));
    auto own_bias = changed.view("fc.bias");
    own_bias.copy_(local.view("local.bias") + received("aux.bias"));
    for (size_t j = 0; j < client.counts.size(); ++j)
      if (client.counts[j] == 0) own_bias.narrow(0, static_cast<int64_t>(j), 1).fill_(never);
    return changed;
  }

 private:
  static torch::Tensor norm_of(const torch::Tensor& rows) { return rows.norm(2, {1}, true).clamp_min(1e-12); }

  AlignedParams params_;
};

}  // namespace

Choice<PosthocClassifier> aligned_entry() {
  return choice_of<PosthocClassifier, Aligned>("posthoc", "re-aligned auxiliary heads of FedLoGe (Xiao 2024)");
}

}  // namespace fedgrab
