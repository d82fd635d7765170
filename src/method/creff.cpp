#include "creff.h"

#include <fmt/format.h>

#include "entries.h"
#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

struct CreffParams {
  int64_t features = 100, match_steps = 100, retrain_epochs = 300, retrain_batch = 32;
  double feature_lr = 0.1, net_lr = 0.01;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("features", features, "federated features per class").between(1, 100000);
    v.param("match_steps", match_steps, "steps a round that bring their gradients closer to the clients'").at_least(0);
    v.param("feature_lr", feature_lr, "learning rate of the features").between(0, 1e3);
    v.param("retrain_epochs", retrain_epochs, "passes over the features when the classifier is trained anew")
        .at_least(0);
    v.param("retrain_batch", retrain_batch, "features per step of it").between(1, 1000000);
    v.param("net_lr", net_lr, "learning rate of it").between(0, 1e3);
  }
};

constexpr int64_t most_gradients = int64_t{1} << 26;  // numbers a client would send: 256 MiB
const std::string weight = "creff.weight", bias = "creff.bias", made = "creff.features", gradients = "creff.gradients",
                  present = "creff.present";

/// The head the clients' gradients are taken of: the one re-trained last.
Classifier classifier_in(const TensorMap& memory) { return {memory.at(weight), memory.at(bias)}; }

class Creff : public Method {
 public:
  using Params = CreffParams;
  static constexpr const char* name = "creff";
  Creff(LocalLoss loss, Params params) : Method(std::move(loss)), params_(params) {}

  void initialise(State& global, uint64_t /*seed*/) const override {
    const int64_t classes = global.model->classes, each = classes * (global.model->architecture.features + 1);
    if (classes * each > most_gradients)
      throw Error(Fault::usage, "method.name",
                  fmt::format("creff would send {} numbers per client and round (classes² × features), more than {}",
                              classes * each, most_gradients),
                  "choose another method, or a model with fewer features");
  }

  void begin_round(int64_t /*round*/, uint64_t seed, std::span<const int64_t> /*clients*/,
                   std::span<const int64_t> /*sizes*/) override {
    seed_ = seed;
  }

  bool wants_features() const override { return true; }

  void observe(const ClientView& view, const torch::Tensor& features, const torch::Tensor& labels) const override {
    const auto head = view.server.contains(weight) ? classifier_in(view.server) : fresh(view.global, 0);
    view.memory[gradients] = class_gradients(head, features.cpu(), labels.cpu());
  }

  std::vector<Contribution> contribute(const ClientView& view, const LocalResult& result) const override {
    auto sent = Method::contribute(view, result);
    const auto has = torch::tensor(std::vector<float>(view.counts.begin(), view.counts.end())).clamp_max(1);
    const auto mine = view.memory.at(gradients);
    view.memory.erase(gradients);  // it was for this round
    const int64_t each = mine.numel() / has.numel() * static_cast<int64_t>(sizeof(float));
    // Only of the classes it has; which ones they are takes a bit each.
    sent.push_back({gradients, mine, 1, has.sum().item<int64_t>() * each + (has.numel() + 7) / 8});
    sent.push_back({present, has, 1, 0});
    return sent;
  }

  void server_rule(State& global, const Sums& sums, int64_t round, TensorMap& memory) const override {
    Method::server_rule(global, sums, round, memory);
    const int64_t classes = global.model->classes, width = global.model->architecture.features;
    if (!memory.contains(weight)) {
      const auto start = fresh(global, 0);
      memory[weight] = start.weight;
      memory[bias] = start.bias;
      memory[made] = noise({classes, params_.features, width});
    }
    const auto seen = sums[present];
    const auto real = sums[gradients].view({classes, classes, width + 1}) / seen.clamp_min(1).view({-1, 1, 1});
    match_features(memory[made], classifier_in(memory), real, seen > 0, params_.match_steps, params_.feature_lr);
    auto head = fresh(global, round);
    retrain(head, memory[made], params_.retrain_epochs, params_.retrain_batch, params_.net_lr, seed_,
            static_cast<uint32_t>(round));
    memory[weight] = head.weight;
    memory[bias] = head.bias;
  }

  State deployed(const State& global, const TensorMap& memory) const override {
    if (!memory.contains(weight)) return global;
    State changed = global.clone();
    changed.view("fc.weight").copy_(memory.at(weight));
    changed.view("fc.bias").copy_(memory.at(bias));
    return changed;
  }

  int64_t bytes_down(const Model& model) const override {
    return Method::bytes_down(model) +
           model.classes * (model.architecture.features + 1) * static_cast<int64_t>(sizeof(float));
  }

 private:
  Classifier fresh(const State& global, int64_t round) const {
    const auto start = [&](const char* parameter) {
      const auto& info = global.model->find(parameter);
      auto values = torch::empty(info.shape, torch::kFloat);
      fedgrab::initialise(values, info, seed_ + static_cast<uint64_t>(round) + 1);
      return values;
    };
    return {start("fc.weight"), start("fc.bias")};
  }
  torch::Tensor noise(at::IntArrayRef shape) const {
    auto values = torch::empty(shape, torch::kFloat);
    Random random(seed_, Purpose::server, 1);
    auto* data = values.data_ptr<float>();
    for (int64_t i = 0; i < values.numel(); ++i) data[i] = static_cast<float>(random.normal());
    return values;
  }

  CreffParams params_;
  uint64_t seed_ = 0;
};

}  // namespace

torch::Tensor class_gradients(const Classifier& head, const torch::Tensor& features) {
  const int64_t classes = features.size(0), n = features.size(1);
  const auto p = (features.matmul(head.weight.t()) + head.bias).softmax(-1);
  const auto error = p - torch::eye(classes, features.options()).unsqueeze(1);  // [class, n, classes]
  const auto with_one = torch::cat({features, torch::ones({classes, n, 1}, features.options())}, -1);
  return error.transpose(1, 2).matmul(with_one) / static_cast<double>(n);
}

torch::Tensor class_gradients(const Classifier& head, const torch::Tensor& features, const torch::Tensor& labels) {
  const int64_t classes = head.weight.size(0);
  auto result = torch::zeros({classes, classes, head.weight.size(1) + 1}, features.options());
  for (int64_t c = 0; c < classes; ++c) {
    const auto own = (labels == c).nonzero().squeeze(-1);
    if (own.numel() == 0) continue;
    const auto f = features.index_select(0, own);
    auto error = (f.matmul(head.weight.t()) + head.bias).softmax(-1);
    error.select(1, c).sub_(1);
    result[c].copy_(error.t().matmul(torch::cat({f, torch::ones({f.size(0), 1}, f.options())}, -1)) /
                    static_cast<double>(own.numel()));
  }
  return result;
}

torch::Tensor matching_loss(const torch::Tensor& real, const torch::Tensor& fake, const torch::Tensor& marked) {
  const int64_t width = real.size(-1) - 1;
  const auto apart = [](const torch::Tensor& a, const torch::Tensor& b) {
    return 1 - (a * b).sum(-1) / (a.norm(2, {-1}) * b.norm(2, {-1}) + 1e-6);
  };
  const auto rows = apart(real.narrow(-1, 0, width), fake.narrow(-1, 0, width)).sum(-1);
  return ((rows + apart(real.select(-1, width), fake.select(-1, width))) * marked.to(real.scalar_type())).sum();
}

double match_features(torch::Tensor& features, const Classifier& head, const torch::Tensor& real,
                      const torch::Tensor& marked, int64_t steps, double lr) {
  double first = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const torch::AutoGradMode graph(true);
    const auto leaf = features.detach().requires_grad_();
    const auto loss = matching_loss(real, class_gradients(head, leaf), marked);
    if (step == 0) first = loss.item<double>();
    features.sub_(torch::autograd::grad({loss}, {leaf}).front(), lr);
  }
  return first;
}

void retrain(Classifier& head, const torch::Tensor& features, int64_t epochs, int64_t batch, double lr, uint64_t seed,
             uint32_t round) {
  const torch::NoGradGuard no_graph;
  const int64_t classes = features.size(0), n = features.size(0) * features.size(1);
  const auto all = torch::cat({features.flatten(0, 1), torch::ones({n, 1})}, 1);
  const auto truth = torch::eye(classes).repeat_interleave(features.size(1), 0);
  auto weights = torch::cat({head.weight, head.bias.unsqueeze(1)}, 1);
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto places =
        torch::tensor(permutation(n, Random(seed, Purpose::server, 2, round, static_cast<uint32_t>(epoch))));
    const auto x = all.index_select(0, places), y = truth.index_select(0, places);
    for (int64_t first = 0; first < n; first += batch) {
      const int64_t size = std::min(batch, n - first);
      const auto f = x.narrow(0, first, size);
      const auto error = f.matmul(weights.t()).softmax(-1).sub_(y.narrow(0, first, size));
      weights.addmm_(error.t(), f, 1, -lr / static_cast<double>(size));
    }
  }
  head.weight = weights.narrow(1, 0, weights.size(1) - 1).contiguous();
  head.bias = weights.select(1, weights.size(1) - 1).contiguous();
}

MethodEntry creff_entry() {
  return entry_of<Creff, linear_loss>(groups::long_tailed,
                                      "the server re-trains the head on features that match gradients (Shang 2022)");
}

}  // namespace fedgrab
