/// What tests/python/onnx_test.py compares ONNX Runtime with: images, and the logits of our own networks for them.
///   onnx_reference networks FOLDER      every network and head: NAME.onnx, NAME.safetensors
///   onnx_reference model MODEL FILE     of a run or a model file, where FILE.onnx was exported by the program
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/model/onnx.h"
#include "fedgrab/model/safetensors.h"
#include "tests/model/normalised_logits.h"

using namespace fedgrab;  // NOLINT(google-build-using-namespace): a program of its own

namespace {

void save_reference(const std::string& path, const State& state, const Normalisation& normalisation) {
  const ImageShape& input = state.model->architecture.input;
  const auto images = uniform_numbers({5, input.channels, input.height, input.width}, 0);
  save_safetensors(path, {{{"images", images}, {"logits", logits_of(state, normalisation, images)}}, {}});
}

struct Case {
  std::string name, network;
  ImageShape input;
  Head head{};
};

std::vector<Case> cases() {
  const std::vector<float> numbers{0, 0.5F, -1.5F, 0, 2, 0.25F, 1};
  std::vector<Case> all{{"grey", "cnn", {1, 28, 20}},
                        {"cosine", "resnet8", {3, 16, 16}, {.kind = HeadKind::cosine, .bias = false, .scale = 16}},
                        {"offset", "cnn", {3, 16, 16}, {.kind = HeadKind::cosine, .bias = false, .offset = numbers}},
                        {"projected", "cnn", {3, 16, 16}, {.projected = true, .offset = numbers}},
                        {"shift", "cnn", {3, 16, 16}, {.scale = 6, .shift = numbers}}};
  for (const auto& network : architecture_names()) all.push_back({network, network, {3, 32, 32}});
  return all;
}

void save_case(const std::filesystem::path& folder, const Case& c) {
  const State state = initial_state(make_model(make_architecture(c.network, c.input), {c.head}, 7), 1);
  for (const auto& p : state.model->parameters) {  // as after training: no two channels alike
    const auto noise = uniform_numbers(p.shape, static_cast<uint32_t>(p.offset));
    if (p.kind == ParameterKind::running_var) state.view(p).add_(noise * 0.5 - 0.25);
    if (p.kind == ParameterKind::running_mean || p.kind == ParameterKind::norm_bias) state.view(p).add_(noise - 0.5);
  }
  const Normalisation normalisation = some_normalisation(c.input.channels);
  save_onnx(folder / (c.name + ".onnx"), state, normalisation, {{"class_names", "[]"}});
  save_reference(folder / (c.name + ".safetensors"), state, normalisation);
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.at(0) == "networks") {
    for (const auto& c : cases()) save_case(arguments.at(1), c);
  } else {
    const LoadedModel loaded = load_model(arguments.at(1));
    save_reference(arguments.at(2), loaded.state, loaded.card.normalisation);
  }
  return 0;
}
