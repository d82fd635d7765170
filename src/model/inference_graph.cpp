#include "inference_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fedgrab {
namespace {

class GraphBuilder {
 public:
  explicit GraphBuilder(const State& state) : state_(state) {}

  std::string parameter(const std::string& name) { return constant(name, state_.view(name)); }
  std::string constant(const std::string& name, const torch::Tensor& values) {
    graph_.constants.try_emplace(name, values.detach().to(torch::kCPU).clone());
    return name;
  }
  std::string constant(const std::string& name, const std::vector<float>& values) {
    return constant(name, torch::tensor(values));
  }

  std::string append(GraphOp operation, std::vector<std::string> inputs) {
    return append({.operation = operation, .output = {}, .inputs = std::move(inputs)});
  }
  std::string append(GraphStep step) {
    step.output = fmt::format("v{}", graph_.steps.size());
    graph_.steps.push_back(std::move(step));
    return graph_.steps.back().output;
  }

  InferenceGraph finish() && {
    graph_.steps.back().output = graph_output;
    return std::move(graph_);
  }

 private:
  const State& state_;
  InferenceGraph graph_;
};

std::string append_layer(GraphBuilder& graph, const Layer& layer, const std::string& x, const std::string& other) {
  const auto own = [&](const char* suffix) { return graph.parameter(layer.name + suffix); };
  switch (layer.kind) {
    case LayerKind::convolution: {
      std::vector<std::string> inputs{x, own(".weight")};
      if (layer.bias) inputs.push_back(own(".bias"));
      return graph.append({GraphOp::convolution, {}, inputs, layer.kernel, layer.stride, layer.padding});
    }
    case LayerKind::batch_norm:
      return graph.append(GraphOp::batch_norm,
                          {x, own(".weight"), own(".bias"), own(".running_mean"), own(".running_var")});
    case LayerKind::relu: return graph.append(GraphOp::relu, {x});
    case LayerKind::add: return graph.append(GraphOp::add, {x, other});
    case LayerKind::max_pool:
      return graph.append({GraphOp::max_pool, {}, {x}, layer.kernel, layer.stride, layer.padding});
    case LayerKind::global_average: return graph.append(GraphOp::global_average, {x});
    case LayerKind::flatten: return graph.append(GraphOp::flatten, {x});
    case LayerKind::dropout: return x;
    case LayerKind::linear: return graph.append(GraphOp::linear, {x, own(".weight"), own(".bias")});
  }
  return {};
}

std::string append_backbone(GraphBuilder& graph, const Architecture& architecture, const std::string& images) {
  std::vector<std::string> outputs;
  const auto output_of = [&](int layer) { return layer < 0 ? images : outputs[static_cast<size_t>(layer)]; };
  for (const auto& layer : architecture.layers)
    outputs.push_back(append_layer(graph, layer, output_of(layer.input), output_of(layer.other)));
  return outputs.back();
}

/// As head_logits() of head.cpp computes them.
void append_head(GraphBuilder& graph, const Head& head, int64_t classes, const std::string& features) {
  const auto own = [&](const char* suffix) { return graph.parameter(head.name + suffix); };
  std::string x = features, weight = own(".weight");
  if (head.projected) x = graph.append(GraphOp::linear, {x, own(".projection.weight"), own(".projection.bias")});
  if (head.kind == HeadKind::cosine) {
    x = graph.append(GraphOp::unit_rows, {x});
    weight = graph.append(GraphOp::unit_rows, {weight});
  }
  std::vector<std::string> inputs{x, weight};
  if (head.bias) inputs.push_back(own(".bias"));
  x = graph.append(GraphOp::linear, inputs);
  if (head.projected) x = graph.append(GraphOp::multiply, {x, own(".temperature")});
  if (!head.shift.empty()) {
    const auto m = static_cast<double>(classes);
    const auto factor = static_cast<float>(std::sqrt(std::max(m - 1, 1.0)) / m);
    const std::string deviation = graph.append(GraphOp::deviation, {x});
    x = graph.append(GraphOp::multiply, {x, graph.constant("factor", std::vector<float>{factor})});
    x = graph.append(GraphOp::divide, {x, deviation});
    x = graph.append(GraphOp::add, {x, graph.constant("shift", head.shift)});
  }
  if (head.scale != 1)
    x = graph.append(GraphOp::multiply,
                     {x, graph.constant("scale", std::vector<float>{static_cast<float>(head.scale)})});
  if (!head.offset.empty()) graph.append(GraphOp::add, {x, graph.constant("offset", head.offset)});
}

}  // namespace

InferenceGraph inference_graph(const State& state, const Normalisation& normalisation) {
  const Model& model = *state.model;
  GraphBuilder graph(state);
  const auto per_channel = [](const std::vector<float>& values) { return torch::tensor(values).view({1, -1, 1, 1}); };
  const std::string centred =
      graph.append(GraphOp::subtract, {graph_input, graph.constant("mean", per_channel(normalisation.mean))});
  const std::string images =
      graph.append(GraphOp::divide, {centred, graph.constant("std", per_channel(normalisation.std))});
  append_head(graph, model.heads.front(), model.classes, append_backbone(graph, model.architecture, images));
  return std::move(graph).finish();
}

}  // namespace fedgrab
