#include "fedgrab/model/torchscript.h"

#include <fmt/format.h>
#include <torch/script.h>

#include <algorithm>
#include <sstream>

#include "epsilon.h"
#include "fedgrab/core/file.h"
#include "inference_graph.h"

namespace fedgrab {
namespace {

std::string attribute(std::string name) {  // TorchScript attributes have no dots
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

std::string expression(const GraphStep& step, const std::vector<std::string>& x) {
  const auto pair = [](int64_t n) { return fmt::format("[{0}, {0}]", n); };
  const auto bias = [&] { return x.size() > 2 ? x[2] : "None"; };
  switch (step.operation) {
    case GraphOp::add: return fmt::format("torch.add({}, {})", x[0], x[1]);
    case GraphOp::subtract: return fmt::format("torch.sub({}, {})", x[0], x[1]);
    case GraphOp::multiply: return fmt::format("torch.mul({}, {})", x[0], x[1]);
    case GraphOp::divide: return fmt::format("torch.div({}, {})", x[0], x[1]);
    case GraphOp::convolution:
      return fmt::format("torch.conv2d({}, {}, {}, {}, {})", x[0], x[1], bias(), pair(step.stride), pair(step.padding));
    case GraphOp::batch_norm:
      return fmt::format("torch.batch_norm({}, {}, {}, {}, {}, False, 0.1, {}, True)", x[0], x[1], x[2], x[3], x[4],
                         batch_norm_epsilon);
    case GraphOp::relu: return fmt::format("torch.relu({})", x[0]);
    case GraphOp::max_pool:
      return fmt::format("torch.max_pool2d({}, {}, {}, {})", x[0], pair(step.kernel), pair(step.stride),
                         pair(step.padding));
    case GraphOp::global_average: return fmt::format("torch.mean({}, [2, 3])", x[0]);
    case GraphOp::flatten: return fmt::format("torch.flatten({}, 1)", x[0]);
    case GraphOp::linear: return fmt::format("torch.linear({}, {}, {})", x[0], x[1], bias());
    case GraphOp::unit_rows:
      return fmt::format("{0} / torch.clamp_min(torch.norm({0}, 2, [-1], True), {1})", x[0], cosine_epsilon);
    case GraphOp::deviation:
      return fmt::format("torch.clamp_min(torch.std({}, [-1], False, True), {})", x[0], smallest_spread);
  }
  return {};
}

std::string source(const InferenceGraph& graph) {
  std::string text = fmt::format("def forward(self, {}):\n", graph_input);
  for (const auto& step : graph.steps) {
    std::vector<std::string> inputs;
    for (const auto& name : step.inputs)
      inputs.push_back(graph.constants.contains(name) ? "self." + attribute(name) : name);
    text += fmt::format("  {} = {}\n", step.output, expression(step, inputs));
  }
  return text + fmt::format("  return {}\n", graph_output);
}

}  // namespace

void save_torchscript(const std::filesystem::path& path, const State& state, const Normalisation& normalisation,
                      const std::map<std::string, std::string>& notes) {
  const InferenceGraph graph = inference_graph(state, normalisation);
  torch::jit::Module module("fedgrab");
  const auto& parameters = state.model->parameters;
  for (const auto& [name, values] : graph.constants) {
    const auto known =
        std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; });
    if (known == parameters.end() || known->buffer())
      module.register_buffer(attribute(name), values);
    else
      module.register_parameter(attribute(name), values, false);
  }
  module.define(source(graph));
  module.eval();

  std::ostringstream bytes;
  torch::jit::ExtraFilesMap extra;
  for (const auto& [name, text] : notes) extra[name] = text;
  module.save(bytes, extra);
  write_atomically(path, bytes.str());
}

}  // namespace fedgrab
