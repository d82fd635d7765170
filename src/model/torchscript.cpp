#include "fedgrab/model/torchscript.h"

#include <fmt/format.h>
#include <torch/script.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "fedgrab/core/file.h"

namespace fedgrab {
namespace {

std::string attribute(std::string name) {  // TorchScript attributes have no dots
  std::replace(name.begin(), name.end(), '.', '_');
  return "self." + name;
}

std::string value(int index) { return index < 0 ? "images" : fmt::format("v{}", index); }

std::string expression(const Layer& layer) {
  std::string x = value(layer.input);
  const auto p = [&](const char* suffix) { return attribute(layer.name + suffix); };
  const auto pair = [](int64_t n) { return fmt::format("[{0}, {0}]", n); };
  switch (layer.kind) {
    case LayerKind::convolution:
      return fmt::format("torch.conv2d({}, {}, {}, {}, {})", x, p(".weight"), layer.bias ? p(".bias") : "None",
                         pair(layer.stride), pair(layer.padding));
    case LayerKind::batch_norm:
      return fmt::format("torch.batch_norm({}, {}, {}, {}, {}, False, 0.1, 1e-5, True)", x, p(".weight"), p(".bias"),
                         p(".running_mean"), p(".running_var"));
    case LayerKind::relu: return fmt::format("torch.relu({})", x);
    case LayerKind::add: return fmt::format("torch.add({}, {})", x, value(layer.other));
    case LayerKind::max_pool:
      return fmt::format("torch.max_pool2d({}, {}, {}, {})", x, pair(layer.kernel), pair(layer.stride),
                         pair(layer.padding));
    case LayerKind::global_average: return fmt::format("torch.mean({}, [2, 3])", x);
    case LayerKind::flatten: return fmt::format("torch.flatten({}, 1)", x);
    case LayerKind::dropout: return x;
    case LayerKind::linear: return fmt::format("torch.linear({}, {}, {})", x, p(".weight"), p(".bias"));
  }
  return {};
}

std::string head_lines(const Head& head, int64_t classes) {
  const auto m = static_cast<double>(classes);
  const std::string weight = attribute(head.name + ".weight");
  const std::string bias = head.bias ? attribute(head.name + ".bias") : "None";
  const auto unit = [](const std::string& v) {
    return fmt::format("{0} / torch.clamp_min(torch.norm({0}, 2, [-1], True), 1e-8)", v);
  };
  const auto own = [&](const char* suffix) { return attribute(head.name + suffix); };
  const std::string x =
      head.projected ? fmt::format("torch.linear(features, {}, {})", own(".projection.weight"), own(".projection.bias"))
                     : "features";
  const bool cosine = head.kind == HeadKind::cosine;
  const auto scores = fmt::format("torch.linear({}, {}, {}){}", cosine ? unit(x) : x, cosine ? unit(weight) : weight,
                                  bias, head.projected ? " * " + own(".temperature") : "");
  const auto answer =
      head.shift.empty()
          ? "scores"
          : fmt::format("(scores * {} / torch.clamp_min(torch.std(scores, [-1], False, True), 1e-8) + self.shift)",
                        std::sqrt(std::max(m - 1, 1.0)) / m);
  return fmt::format("  scores = {}\n  return {} * {}{}\n", scores, answer, head.scale,
                     head.offset.empty() ? "" : " + self.offset");
}

std::string source(const Model& model) {
  std::string text = "def forward(self, images):\n  images = (images - self.mean) / self.std\n";
  const auto& layers = model.architecture.layers;
  for (size_t i = 0; i < layers.size(); ++i) text += fmt::format("  v{} = {}\n", i, expression(layers[i]));
  return text + fmt::format("  features = v{}\n", layers.size() - 1) + head_lines(model.heads.front(), model.classes);
}

}  // namespace

void save_torchscript(const std::filesystem::path& path, const State& state, const Normalisation& normalisation,
                      const std::map<std::string, std::string>& notes) {
  torch::jit::Module module("fedgrab");
  for (const auto& p : state.model->parameters) {
    const std::string name = attribute(p.name).substr(5);
    if (p.buffer())
      module.register_buffer(name, state.view(p).clone());
    else
      module.register_parameter(name, state.view(p).clone(), false);
  }
  const auto per_channel = [](const std::vector<float>& values) { return torch::tensor(values).view({1, -1, 1, 1}); };
  module.register_buffer("mean", per_channel(normalisation.mean));
  module.register_buffer("std", per_channel(normalisation.std));
  if (const auto& shift = state.model->heads.front().shift; !shift.empty())
    module.register_buffer("shift", torch::tensor(shift));
  if (const auto& offset = state.model->heads.front().offset; !offset.empty())
    module.register_buffer("offset", torch::tensor(offset));
  module.define(source(*state.model));
  module.eval();

  std::ostringstream bytes;
  torch::jit::ExtraFilesMap extra;
  for (const auto& [name, text] : notes) extra[name] = text;
  module.save(bytes, extra);
  write_atomically(path, bytes.str());
}

}  // namespace fedgrab
