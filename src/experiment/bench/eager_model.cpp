#include "eager_model.h"

#include <algorithm>

namespace fedgrab {
namespace {

namespace nn = torch::nn;

std::string module_name(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace

EagerModel::EagerModel(const Model& model) : model_(model) {
  for (const auto& layer : model.architecture.layers) {
    auto& module = modules_.emplace_back();
    const std::string name = module_name(layer.name);
    switch (layer.kind) {
      case LayerKind::convolution: {
        auto options = nn::Conv2dOptions(layer.in, layer.out, layer.kernel);
        module = nn::AnyModule(
            register_module(name, nn::Conv2d(options.stride(layer.stride).padding(layer.padding).bias(layer.bias))));
        break;
      }
      case LayerKind::batch_norm: module = nn::AnyModule(register_module(name, nn::BatchNorm2d(layer.out))); break;
      case LayerKind::linear: module = nn::AnyModule(register_module(name, nn::Linear(layer.in, layer.out))); break;
      default: break;
    }
  }
  head_ = register_module("fc", nn::Linear(model.architecture.features, model.classes));
}

torch::Tensor EagerModel::forward(const torch::Tensor& images) {
  const auto& layers = model_.architecture.layers;
  std::vector<torch::Tensor> outputs(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    auto x = layer.input < 0 ? images : outputs[static_cast<size_t>(layer.input)];
    switch (layer.kind) {
      case LayerKind::relu: outputs[i] = torch::relu_(x); break;
      case LayerKind::add: outputs[i] = x.add_(outputs[static_cast<size_t>(layer.other)]); break;
      case LayerKind::max_pool: outputs[i] = torch::max_pool2d(x, layer.kernel, layer.stride, layer.padding); break;
      case LayerKind::global_average: outputs[i] = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1); break;
      case LayerKind::dropout: outputs[i] = torch::dropout(x, layer.rate, is_training()); break;
      case LayerKind::flatten: outputs[i] = x.flatten(1); break;
      default: outputs[i] = modules_[i].forward(x);
    }
  }
  return head_(outputs.back());
}

}  // namespace fedgrab
