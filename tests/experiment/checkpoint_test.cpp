#include "fedgrab/experiment/checkpoint.h"

#include <gtest/gtest.h>

#include "fedgrab/core/file.h"
#include "fedgrab/model/safetensors.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::checkpoint_test {

constexpr ImageShape input{3, 8, 8};

std::shared_ptr<const Model> model_of(const std::string& name, int64_t classes = 3,
                                      std::vector<Head> heads = {Head{}, Head{.name = "probe", .detached = true}}) {
  return make_model(make_architecture(name, input), std::move(heads), classes);
}

ModelCard card_of(const std::string& architecture) {
  return {.architecture = architecture,
          .input = input,
          .class_names = {"cat", "dög", "a \"bird\""},
          .normalisation = {{0.1F, 0.2F, 0.3F}, {0.4F, 0.5F, 0.6F}},
          .round = 12,
          .config = "[train]\nlr = 0.1\n"};
}

class CheckpointTest : public testing::Test {
 protected:
  void save(int64_t round, int64_t keep = 2) const {
    ModelCard card = card_of("resnet8");
    card.round = round;
    save_checkpoint(directory_, card, {round, state_, server_}, deployed_, clients_, keep);
  }

  ScratchFolder scratch_;
  RunDirectory directory_{scratch_.path("run")};
  State state_ = initial_state(model_of("resnet8"), 5);
  State deployed_ = state_;
  TensorMap server_{{"momentum", torch::arange(4, torch::kFloat)}, {"steps", torch::tensor({int64_t{9}})}};
  ClientStore clients_;
};

TEST_F(CheckpointTest, BringsBackModelServerAndClients) {
  clients_.write(0, {{"sgb.error", torch::tensor({1.0F, 2.0F})}});
  clients_.write(31, {{"sgb.error", torch::tensor({3.0F})}, {"head/fc.weight", torch::ones({2, 2})}});
  clients_.commit();
  save(12);

  Checkpoint loaded{0, initial_state(state_.model, 6), {{"stale", torch::ones({1})}}};
  ClientStore clients;
  clients.write(7, {{"stale", torch::ones({1})}});
  clients.commit();
  load_checkpoint(directory_.checkpoint(12), loaded, clients);
  EXPECT_EQ(loaded.round, 12);
  EXPECT_TRUE(torch::equal(loaded.global.flat, state_.flat));
  ASSERT_EQ(loaded.server.size(), 2U);
  for (const auto& [name, tensor] : server_) {
    EXPECT_TRUE(torch::equal(loaded.server.at(name), tensor)) << name;
    EXPECT_EQ(loaded.server.at(name).dtype(), tensor.dtype()) << name;
  }
  ASSERT_EQ(clients.in_memory().size(), 3U);
  for (const auto& [name, tensor] : clients_.in_memory())
    EXPECT_TRUE(torch::equal(clients.in_memory().at(name), tensor)) << name;
}

TEST_F(CheckpointTest, IsEvaluatedAsItIsDeployed) {
  deployed_ = state_.clone();
  deployed_.view("fc.weight").mul_(2);
  save(12);
  Checkpoint loaded{0, initial_state(state_.model, 6), {}};
  ClientStore clients;
  load_checkpoint(directory_.checkpoint(12), loaded, clients);
  EXPECT_TRUE(torch::equal(loaded.global.flat, state_.flat));  // training goes on from here
  EXPECT_TRUE(torch::equal(load_model(directory_.checkpoint(12)).state.view("fc.weight"), deployed_.view("fc.weight")));
}

TEST_F(CheckpointTest, OnlyTheNewestAreKept) {
  for (const int64_t round : {2, 4, 6, 8}) save(round, 2);
  EXPECT_EQ(directory_.checkpoint_rounds(), (std::vector<int64_t>{6, 8}));
}

TEST_F(CheckpointTest, OfAnotherModelIsRefused) {
  save(12);
  const auto path = directory_.checkpoint(12);
  ClientStore clients;
  Checkpoint other{0, initial_state(model_of("cnn"), 1), {}};
  expect_error(Fault::checkpoint, [&] { load_checkpoint(path, other, clients); }, {path.string(), "another model"});
  Checkpoint more_classes{0, initial_state(model_of("resnet8", 10), 1), {}};
  expect_error(Fault::checkpoint, [&] { load_checkpoint(path, more_classes, clients); },
               {path.string(), "[3, 64]", "[10, 64]"});
}

TEST_F(CheckpointTest, DamagedOrMissingIsRefused) {
  save(12);
  const auto path = directory_.checkpoint(12);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  ClientStore clients;
  Checkpoint loaded{0, state_.clone(), {}};
  expect_error(Fault::checkpoint, [&] { load_checkpoint(path, loaded, clients); }, {path.string()});
  expect_error(Fault::checkpoint, [&] { load_checkpoint(directory_.checkpoint(99), loaded, clients); },
               {"000099.safetensors"});
}

TEST_F(CheckpointTest, ATensorThatChangedIsRefused) {
  clients_.write(0, {{"sgb.error", torch::tensor({1.0F, 2.0F})}});
  clients_.commit();
  save(12);
  const auto path = directory_.checkpoint(12);
  const auto bytes = read_bytes(path);
  Checkpoint loaded{0, state_.clone(), {}};
  ClientStore clients;
  for (const size_t from_end : {1U, 5U, 1000U}) {
    auto damaged = bytes;
    damaged[damaged.size() - from_end] ^= 1U;
    AtomicFile file(path);
    file.write(damaged);
    file.commit();
    expect_error(Fault::checkpoint, [&] { load_checkpoint(path, loaded, clients); }, {path.string(), "checksum"});
    expect_error(Fault::checkpoint, [&] { load_model(path); }, {path.string(), "checksum"});
  }
}

TEST_F(CheckpointTest, OfVersion01HasNoChecksumAndLoads) {
  save(12);
  const auto path = directory_.checkpoint(12);
  TensorFile file = load_safetensors(path);
  ASSERT_EQ(file.metadata.erase("fedgrab.crc32"), 1U);
  save_safetensors(path, file);
  EXPECT_TRUE(torch::equal(load_model(path).state.view("fc.weight"), state_.view("fc.weight")));
  Checkpoint loaded{0, initial_state(state_.model, 6), {}};
  ClientStore clients;
  EXPECT_EQ(load_checkpoint(path, loaded, clients).round, 12);
  EXPECT_TRUE(torch::equal(loaded.global.flat, state_.flat));
}

TEST_F(CheckpointTest, WithADescriptionNestedWithoutEndIsRefused) {
  save(12);
  const auto path = directory_.checkpoint(12);
  const TensorFile good = load_safetensors(path);
  TensorFile deep = good;
  deep.metadata["fedgrab"] = "{\"class_names\": " + std::string(20000, '[') + std::string(20000, ']') + "}";
  save_safetensors(path, deep);
  expect_error(Fault::checkpoint, [&] { load_model(path); }, {path.string(), "nested"});
  Json card = Json::parse(good.metadata.at("fedgrab"));
  card["config"] = "a = " + std::string(20000, '[');
  deep.metadata["fedgrab"] = card.dump();
  save_safetensors(path, deep);
  expect_error(Fault::usage, [&] { redeploy(path, {{"posthoc.kind", "none"}}, nullptr); }, {path.string(), "nested"});
}

TEST_F(CheckpointTest, WithoutADescriptionIsRefused) {
  const auto path = scratch_.path("plain.safetensors");
  save_safetensors(path, {state_.named(), {}});
  ClientStore clients;
  Checkpoint loaded{0, state_.clone(), {}};
  expect_error(Fault::checkpoint, [&] { load_checkpoint(path, loaded, clients); }, {path, "not written by fedgrab"});
  expect_error(Fault::checkpoint, [&] { load_model(path); }, {path, "not written by fedgrab"});
}

TEST_F(CheckpointTest, WithAnUnreadableDescriptionIsRefused) {
  const auto path = scratch_.path("model.safetensors");
  save_model(path, card_of("resnet8"), state_);
  const TensorFile good = load_safetensors(path);
  const Json card = Json::parse(good.metadata.at("fedgrab"));
  const auto refused = [&](const std::string& text) {
    save_safetensors(path, {good.tensors, {{"fedgrab", text}}});
    expect_error(Fault::checkpoint, [&] { load_model(path); }, {path});
  };
  refused("not json");
  refused("[]");
  refused("{}");
  for (const auto& [key, bad] : std::vector<std::pair<std::string, Json>>{{"architecture", 5},
                                                                          {"architecture", "resnet9"},
                                                                          {"architecture", "cnn"},
                                                                          {"input", Json::array({3, 8})},
                                                                          {"input", Json::array({3, -8, 8})},
                                                                          {"class_names", Json::array()},
                                                                          {"class_names", Json::array({"one"})},
                                                                          {"mean", Json::array({0.5})},
                                                                          {"std", "none"}}) {
    SCOPED_TRACE(key + ": " + bad.dump());
    Json changed = card;
    changed[key] = bad;
    refused(changed.dump());
  }
  save_safetensors(path, {good.tensors, {{"fedgrab", card.dump()}}});
  load_model(path);  // what was refused is what was changed
}

/// The description with one field deleted, or of a type that the field cannot have.
std::vector<std::pair<std::string, std::string>> damaged_cards(const Json& card) {
  std::vector<std::pair<std::string, std::string>> damaged;
  const std::vector<Json> wrong{nullptr, 5, 1.5, "text", true, Json::object(), {1, 2, 3}, {"x"}, {{1}, {2}, {3}}};
  const auto same_type = [](const Json& a, const Json& b) {
    if (a.is_array() && b.is_array() && !a.empty()) return a.front().is_number() == b.front().is_number();
    return a.is_number() ? b.is_number() : a.type() == b.type();
  };
  for (const auto& [field, value] : card.items()) {
    Json changed = card;
    changed.erase(field);
    if (field != "head_projected" && field != "head_shift" && field != "head_offset")  // absent in files of version 0.1
      damaged.emplace_back(field + " deleted", changed.dump());
    for (const auto& other : wrong) {
      const bool text_that_is_none = field == "architecture" || field == "head_kind";
      if (same_type(value, other) && !text_that_is_none) continue;
      changed[field] = other;
      damaged.emplace_back(field + ": " + other.dump(), changed.dump());
    }
  }
  return damaged;
}

TEST_F(CheckpointTest, EveryFieldOfTheDescriptionDeletedOrMistypedIsRefused) {
  const auto model = scratch_.path("model.safetensors");
  save_model(model, card_of("resnet8"), state_);
  save(12);
  for (const std::string& path : {model, directory_.checkpoint(12).string()}) {
    const TensorFile good = load_safetensors(path);
    for (const auto& [what, text] : damaged_cards(Json::parse(good.metadata.at("fedgrab")))) {
      SCOPED_TRACE(what);
      TensorFile damaged = good;
      damaged.metadata["fedgrab"] = text;
      save_safetensors(path, damaged);
      expect_error(Fault::checkpoint, [&] { load_model(path); }, {path});
      expect_error(Fault::checkpoint, [&] { redeploy(path, {{"posthoc.kind", "none"}}, nullptr); }, {path});
      if (what == "architecture: \"text\"") continue;  // a run knows its own
      Checkpoint loaded{0, state_.clone(), {}};
      ClientStore clients;
      expect_error(Fault::checkpoint, [&] { load_checkpoint(path, loaded, clients); }, {path});
    }
  }
}

// --- The model alone ---

class ModelFile : public CheckpointTest {
 protected:
  void expect_model(const LoadedModel& loaded) const {
    ASSERT_EQ(loaded.state.model->heads.size(), 1U);
    EXPECT_EQ(loaded.card.class_names, card_of("resnet8").class_names);
    EXPECT_EQ(loaded.card.normalisation.std, card_of("resnet8").normalisation.std);
    EXPECT_EQ(loaded.card.config, card_of("resnet8").config);
    EXPECT_EQ(loaded.card.input, input);
    for (const auto& p : loaded.state.model->parameters)
      EXPECT_TRUE(torch::equal(loaded.state.view(p), state_.view(p.name))) << p.name;
  }
};

TEST_F(ModelFile, IsExportedWithoutThePathsThatVersion01Wrote) {
  const auto file = scratch_.path("model.safetensors");
  ModelCard card = card_of("resnet8");
  Config config = resolve_config(std::nullopt, {});
  for (const auto& key : path_keys()) config.set(key, std::string("/home/somebody/" + key));
  card.config = config.to_toml();
  save_model(file, card, state_);
  const std::string exported = for_export(redeploy(file, {}, nullptr).card).config;
  EXPECT_EQ(exported.find("somebody"), std::string::npos) << exported;
  EXPECT_EQ(read_settings(resolve_config({"card", exported}, {})).model.name, read_settings(config).model.name);
}

TEST_F(ModelFile, LoadsFromFileCheckpointAndFolder) {
  save(12);
  const auto file = scratch_.path("model.safetensors");
  save_model(file, card_of("resnet8"), state_);
  expect_model(load_model(file));
  expect_model(load_model(directory_.checkpoint(12)));
  expect_model(load_model(directory_.root));
}

TEST_F(ModelFile, AFolderGivesItsFinalModelElseItsNewestCheckpoint) {
  save(9);
  save(10);
  EXPECT_EQ(load_model(directory_.root).card.round, 10);
  save_model(directory_.model(), card_of("resnet8"), state_);
  EXPECT_EQ(load_model(directory_.root).card.round, 12);
}

TEST_F(ModelFile, SaysWhyNothingCanBeLoaded) {
  expect_error(Fault::checkpoint, [&] { load_model(scratch_.path("none")); }, {"none", "no such file"});
  expect_error(Fault::checkpoint, [&] { load_model(scratch_.path()); },
               {scratch_.path(), "neither a model nor a checkpoint"});
}

TEST_F(ModelFile, HoldsWhatTorchvisionsStrictLoadingAsksForAndNothingElse) {
  const auto path = scratch_.path("model.safetensors");
  save_model(path, card_of("resnet8"), state_);
  const auto tensors = load_safetensors(path).tensors;
  for (const auto& p : state_.model->parameters)
    EXPECT_EQ(tensors.contains(p.name), !p.name.starts_with("probe.")) << p.name;
  ASSERT_TRUE(tensors.contains("layer2.0.downsample.1.num_batches_tracked"));
  EXPECT_EQ(tensors.at("bn1.num_batches_tracked").scalar_type(), torch::kLong);
  size_t counters = 0;
  for (const auto& [name, tensor] : tensors) counters += name.ends_with(".num_batches_tracked") ? 1 : 0;
  EXPECT_EQ(tensors.size(), state_.model->parameters.size() - 2 + counters);
}

TEST_F(ModelFile, KeepsTheKindOfItsHead) {
  const Head cosine{.kind = HeadKind::cosine, .bias = false};
  const State state = initial_state(model_of("cnn", 3, {cosine}), 1);
  ModelCard card = card_of("cnn");
  card.head = cosine;
  const auto path = scratch_.path("model.safetensors");
  save_model(path, card, state);
  const auto loaded = load_model(path);
  EXPECT_EQ(loaded.state.model->heads.front().kind, HeadKind::cosine);
  EXPECT_TRUE(loaded.state.model->heads.front().shift.empty());
  EXPECT_TRUE(torch::equal(loaded.state.flat, state.flat));
}

TEST_F(ModelFile, KeepsTheShiftOfAModelOfVersion01) {
  ModelCard card = card_of("resnet8");
  card.head.shift.assign(card.class_names.size(), 0.5F);
  const auto path = scratch_.path("model.safetensors");
  save_model(path, card, state_);
  EXPECT_EQ(load_model(path).state.model->heads.front().shift, card.head.shift);
  card.head.shift.pop_back();
  save_model(path, card, state_);
  EXPECT_THROW(load_model(path), Error);
}

// --- Starting from a file ---

TEST_F(ModelFile, StartsAnotherRun) {
  const auto path = scratch_.path("model.safetensors");
  save_model(path, card_of("resnet8"), state_);
  State state = initial_state(state_.model, 99);
  const State fresh = state.clone();
  initialise_from_file(state, path);
  EXPECT_TRUE(torch::equal(state.view("conv1.weight"), state_.view("conv1.weight")));
  EXPECT_TRUE(torch::equal(state.view("fc.weight"), state_.view("fc.weight")));
  EXPECT_TRUE(torch::equal(state.view("probe.weight"), fresh.view("probe.weight")));  // the file has none
}

TEST_F(ModelFile, AHeadOfAnotherNumberOfClassesStartsAfresh) {
  const auto path = scratch_.path("model.safetensors");
  save_model(path, card_of("resnet8"), state_);
  State state = initial_state(model_of("resnet8", 7), 99);
  const State fresh = state.clone();
  initialise_from_file(state, path);
  EXPECT_TRUE(torch::equal(state.view("layer3.0.conv2.weight"), state_.view("layer3.0.conv2.weight")));
  EXPECT_TRUE(torch::equal(state.view("fc.weight"), fresh.view("fc.weight")));
  EXPECT_TRUE(torch::equal(state.view("fc.bias"), fresh.view("fc.bias")));
}

TEST_F(ModelFile, OfAnotherBackboneStartsNothing) {
  const auto path = scratch_.path("model.safetensors");
  save_model(path, card_of("resnet8"), state_);
  State state = initial_state(model_of("cnn"), 1);
  expect_error(Fault::checkpoint, [&] { initialise_from_file(state, path); }, {path});
}

}  // namespace fedgrab::checkpoint_test
