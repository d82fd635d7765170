#include "fedgrab/experiment/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "fedgrab/method/presets.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::settings_test {

class SettingsTest : public testing::Test {
 protected:
  ScratchFolder scratch_;
};

TEST_F(SettingsTest, WithoutFileAndFlagTheDefaultsHold) {
  const Settings settings = read_settings(resolve_config(std::nullopt, {}));
  EXPECT_EQ(settings.method, "fedgrab+");
  EXPECT_EQ(settings.data.name, "shapes");
  EXPECT_EQ(settings.train.lr, TrainParams{}.lr);
}

TEST_F(SettingsTest, AFlagBeatsTheFileAndTheFileTheDefault) {
  const auto file = scratch_.write("a.toml", "[train]\nlr = 0.25\nbatch = 8\n[method]\nname = \"fedavg\"\n");
  const Settings settings = read_settings(resolve_config(file, {{"train.batch", "16"}}));
  EXPECT_EQ(settings.train.lr, 0.25);
  EXPECT_EQ(settings.train.batch, 16);
  EXPECT_EQ(settings.method, "fedavg");
  EXPECT_EQ(settings.train.momentum, TrainParams{}.momentum);
  EXPECT_EQ(read_settings(resolve_config(file, {{"method", "central"}})).method, "central");
}

TEST_F(SettingsTest, APresetBeatsTheDefaultAndTheUserBeatsThePreset) {
  for (const auto& entry : presets())
    for (const auto& [key, value] : entry.values) {
      Config expected{full_schema()};
      expected.set_text(key, value);
      EXPECT_EQ(resolve_config(std::nullopt, {{"method.name", entry.name}}).get(key), expected.get(key))
          << entry.name << ", " << key;
      const Value fallback = full_schema().find(key).fallback;
      const auto file =
          scratch_.write("a.toml", "method.name = \"" + entry.name + "\"\n" + key + " = " + to_text(fallback) + "\n");
      EXPECT_EQ(resolve_config(file, {}).get(key), fallback) << entry.name << ", " << key;
    }
}

TEST_F(SettingsTest, WhatDiffersFromThePresetIsKnown) {
  const auto changed = [](const Assignments& flags) {
    return changed_from_preset(resolve_config(std::nullopt, flags));
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(changed({{"method", "fedgrab"}}), Keys{});
  EXPECT_EQ(changed({{"method", "fedavg"}, {"server.optimizer", "momentum"}, {"train.lr", "0.5"}}),
            (Keys{"train.lr", "server.optimizer"}));
  EXPECT_EQ(changed({{"method", "fedavgm"}, {"server.optimizer", "none"}}), Keys{"server.optimizer"});
  EXPECT_EQ(changed({{"method", "fedavgm"}, {"server.optimizer", "momentum"}}), Keys{}) << "as the preset has it";
}

TEST_F(SettingsTest, APresetNamesAParameterOnce) {
  for (const auto& entry : presets()) {
    std::set<std::string> keys;
    for (const auto& [key, value] : entry.values) EXPECT_TRUE(keys.insert(key).second) << entry.name << ", " << key;
  }
}

TEST_F(SettingsTest, ThePresetsOfFedGrabAreThePublishedCodeAndThePaper) {
  const std::map<std::string, Assignments> expected{{"fedgrab-published",
                                                     {{"head.frozen", "true"},
                                                      {"head.init", "\"client-mean\""},
                                                      {"prior.source", "\"fixed\""},
                                                      {"objective.sgb.gate", "\"stalled\""},
                                                      {"server.weights", "\"shuffled\""},
                                                      {"objective.sgb.form", "\"sigmoid\""},
                                                      {"objective.sgb.clamp", "0.0"}}},
                                                    {"fedgrab-paper",
                                                     {{"head.frozen", "false"},
                                                      {"prior.source", "\"dpa\""},
                                                      {"prior.dpa.head", "\"classifier\""},
                                                      {"prior.scale", "\"share\""},
                                                      {"objective.sgb.form", "\"softmax\""},
                                                      {"objective.sgb.clamp", "0.0"}}}};
  for (const auto& [method, values] : expected)
    for (const auto& [key, value] : values)
      EXPECT_EQ(to_text(resolve_config(std::nullopt, {{"method", method}}).get(key)), value) << method << ", " << key;
  const Config mine = resolve_config(std::nullopt, {{"method", "fedgrab-published"}, {"server.weights", "samples"}});
  EXPECT_EQ(to_text(mine.get("server.weights")), "\"samples\"");
}

TEST_F(SettingsTest, NamesWhatIsWrong) {
  expect_error(Fault::usage, [] { resolve_config(std::nullopt, {{"train.lrr", "1"}}); }, {"train.lrr", "train.lr"});
  expect_error(Fault::usage, [] { resolve_config(std::nullopt, {{"train.momentum", "2"}}); }, {"train.momentum", "2"});
  expect_error(Fault::usage, [] { resolve_config(std::nullopt, {{"method", "fedavgg"}}); }, {"fedavg"});
  expect_error(Fault::usage, [] { resolve_config("/nonexistent/a.toml", {}); }, {"/nonexistent/a.toml"});
}

TEST_F(SettingsTest, EveryParameterSurvivesTheConfigOfTheRunDirectory) {
  const Config config =
      resolve_config(std::nullopt, {{"train.lr", "0.1"}, {"eval.few", "1,2"}, {"data.path", "a \"b\"\\c"}});
  const auto file = scratch_.write("config.toml", config.to_toml());
  const Config back = resolve_config(file, {});
  for (const auto& parameter : config.schema().all())
    EXPECT_EQ(back.get(parameter.key), config.get(parameter.key)) << parameter.key;
}

class Resumed : public SettingsTest {
 protected:
  Config resume(const Assignments& flags) const { return resumed_config(saved_, std::nullopt, flags); }
  std::string saved_ = scratch_.write(
      "config.toml",
      resolve_config(std::nullopt, {{"method", "fedavg"}, {"train.lr", "0.2"}, {"train.rounds", "10"}}).to_toml());
};

TEST_F(Resumed, WithoutFlagsIsTheRunAsItWas) {
  const Settings settings = read_settings(resume({}));
  EXPECT_EQ(settings.method, "fedavg");
  EXPECT_EQ(settings.train.lr, 0.2);
  EXPECT_EQ(settings.train.rounds, 10);
}

TEST_F(Resumed, KeepsWhatItsPresetDoesNotSay) {
  saved_ = scratch_.write(
      "config.toml",
      resolve_config(std::nullopt, {{"method", "fedgrab"}, {"head.init", "random"}, {"train.rounds", "10"}}).to_toml());
  EXPECT_EQ(std::get<std::string>(resume({{"train.rounds", "20"}}).get("head.init")), "random");
  EXPECT_EQ(std::get<std::string>(resume({{"method", "fedgrab"}}).get("head.init")), "random");
  expect_error(Fault::usage, [&] { resume({{"head.init", "etf"}}); }, {"head.init", "etf", "random"});
}

TEST_F(Resumed, MayGoOnForMoreRoundsOnAnotherNumberOfWorkers) {
  const Settings settings = read_settings(resume(
      {{"train.rounds", "20"}, {"engine.workers", "2"}, {"checkpoint.every", "1"}, {"record.tensorboard", "false"}}));
  EXPECT_EQ(settings.train.rounds, 20);
  EXPECT_EQ(settings.engine.workers, 2);
  EXPECT_EQ(settings.checkpoint.every, 1);
  EXPECT_FALSE(settings.record.tensorboard);
  EXPECT_EQ(settings.train.lr, 0.2);
}

TEST_F(Resumed, RefusesWhatWouldMakeTheFinishedRoundsUntrue) {
  expect_error(Fault::usage, [&] { resume({{"train.lr", "0.3"}}); }, {"train.lr", "0.3", "0.2"});
  expect_error(Fault::usage, [&] { resume({{"method", "fedgrab"}}); }, {"method.name", "fedgrab", "fedavg"});
  expect_error(Fault::usage, [&] { resume({{"train.seed", "2"}}); }, {"train.seed"});
  EXPECT_EQ(read_settings(resume({{"train.lr", "0.2"}})).train.lr, 0.2);  // the same value is no change
}

TEST_F(Resumed, KnowsThePathsItRecordedInAnyForm) {
  const Config recorded = with_absolute_paths(resolve_config(std::nullopt, {{"data.path", "some/../data"}}));
  EXPECT_EQ(read_settings(recorded).data.path, (std::filesystem::current_path() / "data").string());
  EXPECT_EQ(read_settings(recorded).model.init, "");
  saved_ = scratch_.write("config.toml", recorded.to_toml());
  EXPECT_EQ(resume({{"data.path", "data"}}).get("data.path"), recorded.get("data.path"));
  expect_error(Fault::usage, [&] { resume({{"data.path", "other"}}); }, {"data.path", "other"});
}

TEST_F(Resumed, RefusesMoreRoundsUnderTheCosineWhichTheyWouldBend) {
  saved_ = scratch_.write("config.toml", resolve_config(std::nullopt, {{"train.schedule", "cosine"}}).to_toml());
  expect_error(Fault::usage, [&] { resume({{"train.rounds", "1000"}}); }, {"train.rounds"});
}

TEST_F(Resumed, ADeterministicRunKeepsWhatItsBitsHangOn) {
  saved_ = scratch_.write("config.toml", resolve_config(std::nullopt, {{"engine.deterministic", "true"}}).to_toml());
  for (const auto* change : {"engine.slots=8", "engine.groups=2", "engine.precision=fp32", "engine.device=cpu"}) {
    const std::string text = change;
    const auto equals = text.find('=');
    expect_error(Fault::usage,
                 [&] {
                   resume({{text.substr(0, equals), text.substr(equals + 1)}});
                 },
                 {text.substr(0, equals)});
  }
  EXPECT_EQ(read_settings(resume({{"engine.workers", "2"}})).engine.workers, 2);
}

}  // namespace fedgrab::settings_test
