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
    v.param("match_steps", match_steps, "gradient matching steps per round").at_least(0);
    v.param("feature_lr", feature_lr, "learning rate of the federated features").between(0, 1e3);
    v.param("retrain_epochs", retrain_epochs, "epochs of the new classifier over the federated features").at_least(0);
    v.param("retrain_batch", retrain_batch, "batch size of the new classifier").between(1, 1000000);
    v.param("net_lr", net_lr, "learning rate of the new classifier").between(0, 1e3);
  }
};

constexpr int64_t most_gradients = int64_t{1} << 26;  // numbers a client would send: 256 MiB
const std::string weight = "creff.weight", bias = "creff.bias", made = "creff.features", gradients = "creff.gradients",
                  present = "creff.present";

/// The head the clients' gradients are taken of: the one re-trained last.
Classifier classifier_in(const TensorMap& server) { return {server.at(weight), server.at(bias)}; }

class Creff : public PosthocClassifier {
 public:
  using Params = CreffParams;
  static constexpr const char* name = "creff";
  explicit Creff(Params params) : params_(params) {}

  Needs needs(const Architecture& architecture, int64_t classes) const override {
    const int64_t each = classes * (architecture.features + 1);
    if (classes * each > most_gradients)
      throw Error(Fault::usage, "posthoc.kind",
                  fmt::format("creff would send {} numbers per client and round (classes² × features), more than {}",
                              classes * each, most_gradients),
                  "choose another method, or a model with fewer features");
    return {.broadcast_bytes = each * static_cast<int64_t>(sizeof(float)),
            .features = true,
            .linear_head = true,
            .plain_head = true,
            .payloads = true};
  }

  void before_training(const ClientContext& client, State& /*local*/, const LabelledFeatures* own) const override {
    const RoundContext& round = client.round;
    const auto head =
        round.server.contains(weight) ? classifier_in(round.server) : fresh(*round.global.model, round.seed, 0);
    client.state[gradients] = class_gradients(head, own->features.cpu(), own->labels.cpu());
  }

  std::vector<Payload> after_training(const ClientContext& client, const LocalResult& /*result*/) const override {
    const auto has = to_tensor(client.counts).clamp_max(1);
    const auto mine = client.state.at(gradients);
    client.state.erase(gradients);  // it was for this round
    const int64_t each = mine.numel() / has.numel() * static_cast<int64_t>(sizeof(float));
    // Only of the classes it has; which ones they are takes a bit each.
    return {{gradients, mine, Weighting::none, has.sum().item<int64_t>() * each + (has.numel() + 7) / 8},
            {present, has, Weighting::none, 0}};
  }

  void server_step(const RoundContext& round, const Sums& sums, State& model, TensorMap& server) const override {
    const int64_t classes = model.model->classes, width = model.model->architecture.features;
    if (!server.contains(weight)) {
      const auto start = fresh(*model.model, round.seed, 0);
      server[weight] = start.weight;
      server[bias] = start.bias;
      server[made] = noise({classes, params_.features, width}, round.seed);
    }
    const auto seen = sums[present];
    const auto real = sums[gradients].view({classes, classes, width + 1}) / seen.clamp_min(1).view({-1, 1, 1});
    match_features(server[made], classifier_in(server), real, seen > 0, params_.match_steps, params_.feature_lr);
    auto head = fresh(*model.model, round.seed, round.round);
    retrain(head, server[made], params_.retrain_epochs, params_.retrain_batch, params_.net_lr, round.seed,
            static_cast<uint32_t>(round.round));
    server[weight] = head.weight;
    server[bias] = head.bias;
  }

  State deploy(const State& model, const torch::Tensor& /*prior*/, const TensorMap& server) const override {
    if (!server.contains(weight)) return model;
    State changed = model.clone();
    changed.view("fc.weight").copy_(server.at(weight));
    changed.view("fc.bias").copy_(server.at(bias));
    return changed;
  }

 private:
  static Classifier fresh(const Model& model, uint64_t seed, int64_t round) {
    const auto start = [&](const char* parameter) {
      const auto& info = model.find(parameter);
      auto values = torch::empty(info.shape, torch::kFloat);
      fedgrab::initialise(values, info, seed + static_cast<uint64_t>(round) + 1);
      return values;
    };
    return {start("fc.weight"), start("fc.bias")};
  }
  static torch::Tensor noise(at::IntArrayRef shape, uint64_t seed) {
    auto values = torch::empty(shape, torch::kFloat);
    Random random(seed, Purpose::server, 1);
    auto* data = values.data_ptr<float>();
    for (int64_t i = 0; i < values.numel(); ++i) data[i] = static_cast<float>(random.normal());
    return values;
  }

  CreffParams params_;
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

Choice<PosthocClassifier> creff_entry() {
  return choice_of<PosthocClassifier, Creff>(
      "posthoc", "classifier re-trained by the server on features that match client gradients (Shang 2022)");
}

}  // namespace fedgrab
