#include "fedgrab/model/torchscript.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include "tests/data/scratch_folder.h"
#include "tests/model/normalised_logits.h"

namespace fedgrab::torchscript_test {

struct Case {
  std::string network;
  ImageShape input;
  std::vector<Head> heads;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.network << " with " << c.heads.size() << " heads"; }

class TorchScript : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Models, TorchScript,
    testing::Values(
        Case{"cnn", {3, 16, 16}, {Head{}}}, Case{"cnn", {1, 8, 12}, {Head{}, Head{.name = "probe"}}},
        Case{"resnet8", {3, 16, 16}, {Head{}}},
        Case{"resnet8", {3, 16, 16}, {Head{.kind = HeadKind::cosine, .bias = false}}},
        Case{"cnn", {3, 16, 16}, {Head{.scale = 6, .shift = {0, 0.1F, 0.2F, 0, 0, 0.3F, 1}}}},
        Case{"cnn",
             {3, 16, 16},
             {Head{.kind = HeadKind::cosine, .bias = false, .scale = 6, .offset = {0, 0.1F, 0.2F, 0, 0, 0.3F, 1}}}},
        Case{"cnn", {3, 16, 16}, {Head{.projected = true, .offset = {0, 0.1F, 0.2F, 0, 0, 0.3F, 1}}}},
        Case{"pfl-cnn", {3, 12, 10}, {Head{}}}, Case{"resnet50", {3, 32, 32}, {Head{}}}));

TEST_P(TorchScript, AnswersLikeTheNetworkOnNormalisedImages) {
  const auto& [name, input, heads] = GetParam();
  const ScratchFolder scratch;
  const State state = initial_state(make_model(make_architecture(name, input), heads, 7), 1);
  for (const auto& p : state.model->parameters)  // as after training: no two channels alike
    if (p.buffer()) state.view(p).add_(0.2 * uniform_numbers(p.shape, static_cast<uint32_t>(p.offset)) - 0.1);
  const Normalisation normalisation = some_normalisation(input.channels);
  save_torchscript(scratch.path("model.pt"), state, normalisation, {});

  const auto images = uniform_numbers({3, input.channels, input.height, input.width}, 0);
  const auto expected = logits_of(state, normalisation, images);

  // A network that has died would agree with anything.
  ASSERT_GT((expected[0] - expected[1]).abs().max().item<double>(), 1e-4);

  auto module = torch::jit::load(scratch.path("model.pt"));
  const auto logits = module.forward({images}).toTensor();
  ASSERT_EQ(logits.sizes(), expected.sizes());
  EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());
}

TEST(TorchScriptFile, CarriesItsNotes) {
  const ScratchFolder scratch;
  const State state = initial_state(make_model(make_architecture("cnn", {1, 8, 8}), {Head{}}, 2), 1);
  save_torchscript(scratch.path("model.pt"), state, {{0.0F}, {1.0F}}, {{"classes.txt", "cat\ndog\n"}});
  torch::jit::ExtraFilesMap notes{{"classes.txt", ""}};
  torch::jit::load(scratch.path("model.pt"), torch::nullopt, notes);
  EXPECT_EQ(notes["classes.txt"], "cat\ndog\n");
}

TEST(TorchScriptFile, StaysAsItWasWhenTrainingGoesOn) {
  const ScratchFolder scratch;
  const State state = initial_state(make_model(make_architecture("cnn", {1, 8, 8}), {Head{}}, 2), 1);
  save_torchscript(scratch.path("model.pt"), state, {{0.0F}, {1.0F}}, {});
  EXPECT_TRUE(std::filesystem::exists(scratch.path("model.pt")));
  state.flat.zero_();
  auto module = torch::jit::load(scratch.path("model.pt"));
  EXPECT_GT(module.forward({torch::ones({1, 1, 8, 8})}).toTensor().abs().max().item<double>(), 0);
}

}  // namespace fedgrab::torchscript_test
