#include "fedgrab/model/network.h"

#include "epsilon.h"
#include "fedgrab/model/head.h"

namespace fedgrab {
namespace {

constexpr double batch_norm_momentum = 0.1;

torch::Tensor batch_norm(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                         const torch::Tensor& mean, const torch::Tensor& var, bool training) {
  const bool one_value = x.numel() == x.size(1);
  return at::batch_norm(x, weight, bias, mean, var, training && !one_value, batch_norm_momentum, batch_norm_epsilon,
                        /*cudnn_enabled=*/true);
}

}  // namespace

Network::Network(const std::shared_ptr<const Model>& model, torch::TensorOptions options)
    : state_{model, torch::zeros({model->size}, options)}, gradient_(torch::zeros_like(state_.flat)) {
  for (const auto& p : state_.model->parameters) {
    auto leaf = state_.view(p);
    if (p.trained()) {
      leaf = leaf.detach().requires_grad_();
      leaf.mutable_grad() = gradient_.narrow(0, p.offset, p.size).view(p.shape);
    }
    leaves_.emplace(p.name, leaf);
  }
  const auto find = [&](const std::string& name) {
    const auto found = leaves_.find(name);
    return found == leaves_.end() ? torch::Tensor() : found->second;
  };
  for (const auto& layer : state_.model->architecture.layers)
    layer_tensors_.push_back({find(layer.name + ".weight"), find(layer.name + ".bias"),
                              find(layer.name + ".running_mean"), find(layer.name + ".running_var")});
}

torch::Tensor dropout_factors(at::IntArrayRef sizes, size_t index, double rate, const Random& random) {
  auto factors = torch::empty(sizes, torch::kFloat);
  auto* const data = factors.data_ptr<float>();
  const auto kept = static_cast<float>(1 / (1 - rate));
  for (int64_t i = 0; i < factors.numel(); i += 4) {
    const auto words = random.block(static_cast<uint32_t>(index) << 24 | static_cast<uint32_t>(i / 4));
    for (int64_t k = i; k < std::min(i + 4, factors.numel()); ++k)
      data[k] = to_unit(words[static_cast<size_t>(k - i)]) < static_cast<float>(rate) ? 0 : kept;
  }
  return factors;
}

NetworkOutput Network::forward_training(const torch::Tensor& images, const std::optional<Random>& dropout) {
  return run(images, true, dropout);
}

NetworkOutput Network::forward(const torch::Tensor& images) {
  const torch::NoGradGuard no_graph;
  return run(images, false);
}

NetworkOutput Network::run(const torch::Tensor& images, bool training, const std::optional<Random>& dropout) {
  const auto& layers = model().architecture.layers;
  std::vector<torch::Tensor> outputs(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) outputs[i] = run_layer(i, outputs, images, training, dropout);
  NetworkOutput output{outputs.back(), {}};
  for (const auto& head : model().heads) output.logits.push_back(run_head(head, output.features));
  return output;
}

torch::Tensor Network::run_layer(size_t index, const std::vector<torch::Tensor>& outputs, const torch::Tensor& images,
                                 bool training, const std::optional<Random>& dropout) {
  const Layer& layer = model().architecture.layers[index];
  const LayerTensors& t = layer_tensors_[index];
  const torch::Tensor& x = layer.input < 0 ? images : outputs[static_cast<size_t>(layer.input)];
  switch (layer.kind) {
    case LayerKind::convolution: return at::conv2d(x, t.weight, t.bias, layer.stride, layer.padding);
    case LayerKind::batch_norm: return batch_norm(x, t.weight, t.bias, t.running_mean, t.running_var, training);
    // In place: what a ReLU or a sum reads is always the fresh output of a layer that keeps its input, not its output.
    case LayerKind::relu: return at::relu_(const_cast<torch::Tensor&>(x));
    case LayerKind::add: return const_cast<torch::Tensor&>(x).add_(outputs[static_cast<size_t>(layer.other)]);
    case LayerKind::max_pool: return at::max_pool2d(x, layer.kernel, layer.stride, layer.padding);
    case LayerKind::global_average: return x.mean({2, 3});
    case LayerKind::flatten: return x.flatten(1);
    case LayerKind::linear: return at::linear(x, t.weight, t.bias);
    case LayerKind::dropout:
      if (!training) return x;
      TORCH_CHECK(dropout, "a network with dropout needs its random numbers");
      return x * dropout_factors(x.sizes(), index, layer.rate, *dropout).to(x.scalar_type());
  }
  return {};
}

torch::Tensor Network::run_head(const Head& head, const torch::Tensor& features) {
  return head_logits(head, head.detached ? features.detach() : features,
                     [&](const std::string& suffix) { return leaf(head.name + suffix); });
}

void Network::backward(const NetworkOutput& output, const std::vector<torch::Tensor>& logit_gradients,
                       const torch::Tensor& feature_gradient) {
  std::vector<torch::Tensor> roots, gradients;
  const auto start_at = [&](const torch::Tensor& root, const torch::Tensor& gradient) {
    if (!gradient.defined() || !root.requires_grad()) return;
    roots.push_back(root);
    gradients.push_back(gradient);
  };
  for (size_t i = 0; i < logit_gradients.size(); ++i) start_at(output.logits[i], logit_gradients[i]);
  start_at(output.features, feature_gradient);
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
}

}  // namespace fedgrab
