#include "fedgrab/model/model.h"

#include <algorithm>
#include <numeric>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

using Kind = ParameterKind;

void describe_layer(const Layer& layer, std::vector<ParameterInfo>& out) {
  const auto add = [&](const char* suffix, std::vector<int64_t> shape, Kind kind, int64_t fan_in) {
    out.push_back({layer.name + suffix, std::move(shape), kind, Role::shared, fan_in});
  };
  const int64_t fan_in = layer.in * layer.kernel * layer.kernel;
  switch (layer.kind) {
    case LayerKind::convolution: {
      add(".weight", {layer.out, layer.in, layer.kernel, layer.kernel}, Kind::weight, fan_in);
      if (layer.bias) add(".bias", {layer.out}, Kind::bias, fan_in);
      break;
    }
    case LayerKind::batch_norm: {
      add(".weight", {layer.out}, Kind::norm_weight, 1);
      add(".bias", {layer.out}, Kind::norm_bias, 1);
      add(".running_mean", {layer.out}, Kind::running_mean, 1);
      add(".running_var", {layer.out}, Kind::running_var, 1);
      break;
    }
    case LayerKind::linear: {
      add(".weight", {layer.out, layer.in}, Kind::weight, layer.in);
      add(".bias", {layer.out}, Kind::bias, layer.in);
      break;
    }
    default: break;
  }
}

void describe_head(const Head& head, int64_t features, int64_t classes, std::vector<ParameterInfo>& out) {
  out.push_back({head.name + ".weight", {classes, features}, Kind::weight, head.role, features});
  if (head.bias) out.push_back({head.name + ".bias", {classes}, Kind::bias, head.role, features});
  if (!head.projected) return;
  const Role role = head.role == Role::personal ? Role::personal : Role::shared;  // the classifier alone may be frozen
  out.push_back({head.name + ".projection.weight", {features, features}, Kind::weight, role, features});
  out.push_back({head.name + ".projection.bias", {features}, Kind::bias, role, features});
  out.push_back({head.name + ".temperature", {1}, Kind::norm_weight, role, 1});
}

}  // namespace

const ParameterInfo& Model::find(const std::string& name) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; });
  if (found == parameters.end()) throw Error(Fault::other, name, "the model has no such parameter");
  return *found;
}

int64_t Model::parameter_count() const {
  return std::accumulate(parameters.begin(), parameters.end(), int64_t{0}, [&](int64_t sum, const auto& p) {
    const bool extra_head = std::any_of(heads.begin() + 1, heads.end(),
                                        [&](const Head& head) { return p.name.starts_with(head.name + "."); });
    return sum + (p.buffer() || extra_head ? 0 : p.size);
  });
}

std::shared_ptr<const Model> make_model(Architecture architecture, std::vector<Head> heads, int64_t classes) {
  auto model = std::make_shared<Model>();
  for (const auto& layer : architecture.layers) describe_layer(layer, model->parameters);
  for (const auto& head : heads) describe_head(head, architecture.features, classes, model->parameters);
  std::stable_sort(model->parameters.begin(), model->parameters.end(),
                   [](const auto& a, const auto& b) { return a.buffer() < b.buffer(); });
  for (auto& p : model->parameters) {
    p.offset = model->size;
    p.size = std::accumulate(p.shape.begin(), p.shape.end(), int64_t{1}, std::multiplies<>());
    model->size += p.size;
  }
  model->architecture = std::move(architecture);
  model->heads = std::move(heads);
  model->classes = classes;
  return model;
}

}  // namespace fedgrab
