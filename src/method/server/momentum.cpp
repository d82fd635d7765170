/// FedAvgM (Hsu et al. 2019): v ← βv + Δ, w ← w + ηv.
#include "entries.h"

namespace fedgrab {
namespace {

class Momentum : public ServerOptimizer {
 public:
  explicit Momentum(ServerParams params) : params_(std::move(params)) {}
  torch::Tensor step(const torch::Tensor& delta, const std::string& range, TensorMap& server) const override {
    return kept(server, range + ".m", delta, 0).mul_(params_.beta1).add_(delta) * (params_.lr > 0 ? params_.lr : 1);
  }

 private:
  ServerParams params_;
};

}  // namespace

Choice<ServerOptimizer> momentum_entry() {
  return optimizer_entry<Momentum>("momentum", "SGD with momentum (FedAvgM, Hsu 2019)");
}

}  // namespace fedgrab
