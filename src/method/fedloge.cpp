/// FedLoGe (Xiao et al. 2024): the backbone learns under a fixed sparse simplex head (SSE-C); beside it, on detached
/// features, a global auxiliary head is trained and averaged, and every client trains a local head that it keeps.
/// Handed out: the auxiliary head with rows of equal length (LA-G). A client for itself: the local head plus the
/// auxiliary head's rows, stretched by the lengths of the local ones (LA-L), without the classes it has never met.
#include "fedloge.h"

#include <cmath>

#include "entries.h"

namespace fedgrab {
namespace {

struct FedLogeParams {
  double sparsity = 0.6, length = 1, aligned = 1.7;
  int64_t steps = 1000;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("sparsity", sparsity, "share of the fixed head's entries that are zero").between(0, 0.95);
    v.param("length", length, "of the fixed head's rows (the authors' code: 0.1 to 10)").between(1e-3, 1e3);
    v.param("steps", steps, "of Adam that spread the rows of the sparse head apart again").between(0, 1000000);
    v.param("aligned", aligned, "length of the auxiliary head's rows in the model that is handed out")
        .between(1e-3, 1e3);
  }
};

constexpr float never = -1e4F;  // logit of a class that a client has never met
const std::string local_weight = "fedloge.weight", local_bias = "fedloge.bias";

class FedLoge : public Method {
 public:
  using Params = FedLogeParams;
  static constexpr const char* name = "fedloge";
  FedLoge(LocalLoss loss, Params params) : Method(std::move(loss)), params_(params) {
    plain_ = make_objective("softmax", Config(Schema{}));
  }

  std::vector<Head> heads() const override {
    auto heads = Method::heads();
    heads.front() = {.role = Role::frozen};
    heads.push_back({.name = "aux", .detached = true});
    heads.push_back({.name = "local", .role = Role::personal, .detached = true});
    return heads;
  }
  void initialise(State& global, uint64_t seed) const override {
    make_sparse_etf(global.view("fc.weight"), params_.sparsity, params_.length, params_.steps, seed);
  }

  bool prepares(int64_t /*round*/) const override { return true; }
  void prepare(const ClientView& view, const State& local) const override {
    for (const auto& [parameter, kept] :
         {std::pair("local.weight", local_weight), std::pair("local.bias", local_bias)}) {
      const auto found = view.memory.find(kept);
      if (found != view.memory.end())
        local.view(parameter).copy_(found->second);
      else  // of its own from the start
        fedgrab::initialise(local.view(parameter), local.model->find(parameter), view.seed,
                            static_cast<uint32_t>(view.client + 1));
    }
  }
  ClientRule client_rule(const ClientView& view) const override {
    auto rule = Method::client_rule(view);
    rule.heads.push_back({plain_.get(), {}});
    rule.heads.push_back({plain_.get(), {}});
    return rule;
  }
  std::vector<Contribution> contribute(const ClientView& view, const LocalResult& result) const override {
    view.memory[local_weight] = result.local.view("local.weight").cpu().clone();
    view.memory[local_bias] = result.local.view("local.bias").cpu().clone();
    return Method::contribute(view, result);
  }

  State deployed(const State& global, const TensorMap& /*memory*/) const override {
    State changed = global.clone();
    const auto rows = global.view("aux.weight");
    changed.view("fc.weight").copy_(rows / length_of(rows) * params_.aligned);
    changed.view("fc.bias").copy_(global.view("aux.bias"));
    return changed;
  }

  State personalised(const ClientView& view, const State& local) const override {
    State changed = local.clone();
    const auto own = local.view("local.weight");
    const auto received = [&](const char* parameter) { return view.global.view(parameter).to(own.device()); };
    changed.view("fc.weight").copy_(own + received("aux.weight") * length_of(own));
    auto own_bias = changed.view("fc.bias");
    own_bias.copy_(local.view("local.bias") + received("aux.bias"));
    for (size_t j = 0; j < view.counts.size(); ++j)
      if (view.counts[j] == 0) own_bias.narrow(0, static_cast<int64_t>(j), 1).fill_(never);
    return changed;
  }

 private:
  static torch::Tensor length_of(const torch::Tensor& rows) { return rows.norm(2, {1}, true).clamp_min(1e-12); }

  FedLogeParams params_;
  std::unique_ptr<Objective> plain_;
};

}  // namespace

void make_sparse_etf(const torch::Tensor& weight, double sparsity, double length, int64_t steps, uint64_t seed) {
  const torch::AutoGradMode graph(true);
  auto rows = torch::empty_like(weight);
  make_etf(rows, seed);
  auto mask = torch::ones_like(rows);
  Random random(seed, Purpose::server, 3);
  for (auto* m = mask.data_ptr<float>(); m != mask.data_ptr<float>() + mask.numel(); ++m)
    if (random.uniform() < sparsity) *m = 0;
  mask.masked_fill_((rows * mask).norm(2, {1}, true) == 0, 1);  // a row of zeros would be no class at all
  const auto unit = [](const torch::Tensor& v) { return v / v.norm(2, {1}, true).clamp_min(1e-12); };
  rows = (unit(rows * mask) * length).detach();
  const int64_t classes = rows.size(0);
  if (classes > 1 && steps > 0) {
    rows.requires_grad_();
    torch::optim::Adam adam({rows}, torch::optim::AdamOptions(1e-3 * length));
    const auto itself = torch::eye(classes) * 4;
    for (int64_t step = 0; step < steps; ++step) {
      adam.zero_grad();
      const auto directions = unit(rows);
      const auto nearest = std::get<0>((directions.matmul(directions.t()) - itself).max(1));
      const auto stray = ((rows.norm(2, {1}) - length) / length).square().sum();
      (stray - torch::acos(nearest.clamp(-0.99999, 0.99999)).mean()).backward();
      rows.mutable_grad().mul_(mask);
      adam.step();
    }
  }
  const torch::NoGradGuard no_graph;
  weight.copy_(unit(rows) * length);
}

MethodEntry fedloge_entry() {
  return entry_of<FedLoge, linear_loss>(groups::long_tailed,
                                        "a sparse fixed head, re-aligned global and local heads beside it (Xiao 2024)");
}

}  // namespace fedgrab
