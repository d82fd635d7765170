/// Bias probe: every client trains a bias b ∈ R^M, zero at the start of a round, by softmax on its labels alone, with
/// steps that add up to S. After averaging, 1/M + b̄_j / S estimates the class share π_j. It costs M numbers a round, no
/// weight norms and no ranks. Like every head update it reveals class shares of a client to whoever sees it alone.
#include <algorithm>

#include "entries.h"

namespace fedgrab {
namespace {

const std::string bias = "bias-probe.bias", shares = "bias-probe.shares";

struct BiasProbeParams {
  double step = 0.01;
  int64_t steps = 10;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("step", step, "S, total step size per round; the estimate is exact for small S").between(1e-4, 1);
    v.param("steps", steps, "number of gradient steps that S is divided into").between(1, 1000);
  }
};

class BiasProbe : public ClassPrior {
 public:
  using Params = BiasProbeParams;
  static constexpr const char* name = "bias-probe";
  explicit BiasProbe(Params params) : params_(params) {}

  Needs needs(const Architecture& /*architecture*/, int64_t classes) const override {
    return {.broadcast_bytes = classes * static_cast<int64_t>(sizeof(float)), .payloads = true};
  }
  std::vector<Payload> after_training(const ClientContext& client, const LocalResult& /*result*/) const override {
    const auto own = to_tensor(client.counts);
    const auto share = own / own.sum().clamp_min(1);
    auto b = torch::zeros_like(share);
    for (int64_t step = 0; step < params_.steps; ++step)
      b += (share - b.softmax(0)) * (params_.step / static_cast<double>(params_.steps));
    return {{bias, b, Weighting::server_weights, static_cast<int64_t>(b.nbytes())}};
  }
  void server_step(const RoundContext& /*round*/, const Sums& sums, State& model, TensorMap& server) const override {
    const double even = 1.0 / static_cast<double>(model.model->classes);
    server[shares] = (sums[bias] / params_.step + even).clamp_min(1e-6);
  }
  torch::Tensor estimate(const State& /*global*/, const TensorMap& server,
                         const torch::Tensor& /*global_counts*/) const override {
    const auto found = server.find(shares);
    return found == server.end() ? torch::Tensor() : found->second;
  }

 private:
  BiasProbeParams params_;
};

}  // namespace

Choice<ClassPrior> bias_probe_entry() {
  return choice_of<ClassPrior, BiasProbe>("prior", "a bias trained on labels alone; M numbers per round");
}

}  // namespace fedgrab
