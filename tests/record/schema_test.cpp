#include "fedgrab/record/schema.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "fedgrab/core/version.h"

namespace fedgrab::schema_test {

std::set<std::string> keys(const Json& json) {
  std::set<std::string> names;
  for (const auto& [key, value] : json.items()) names.insert(key);
  return names;
}

RoundRecord full_record() {
  RoundRecord r;
  r.round = 7;
  r.accuracy = Accuracy{.all = 0.5, .many = 0.75, .med = 0.5, .few = 0.25, .per_class = {0.75, 0.25}, .f1 = 0.4};
  r.accuracy->measures = {{Measure::balanced_accuracy, 0.5}, {Measure::auroc, 0.75}, {Measure::ece, 0.125}};
  r.validation = Accuracy{.all = 0.625, .many = 0.5, .per_class = {1, 0.1}, .f1 = 0.1};
  r.validation->measures = {{Measure::balanced_accuracy, 0.55}};
  r.loss = 1.0 / 3;
  r.test_loss = 2.5;
  r.lr = 0.03;
  r.clients = 40;
  r.steps = 1234;
  r.samples = 12406;
  r.bytes_up = int64_t{1} << 40;
  r.bytes_down = 99;
  r.diagnostics = {{"delta", {{-1, 1}, {0.5, 0.25}}}, {"beta_pos", {{2, 3}, {0, 1}}}, {"beta_neg", {{4, 5}, {1, 0}}}};
  r.prior = PriorRecord{{0.1, 1}, 0.2, 0.75};
  r.client_accuracy = {{0.5, 0.5}, {1, 0}};
  r.personal = 0.75;
  r.seconds = 1.5;
  r.phase_seconds = {{"train", 1.0}, {"evaluate", 0.5}};
  return r;
}

TEST(RoundRecord, HasTheKeysScriptsRelyOn) {
  const Json json = to_json(full_record());
  for (const auto* key : {"round", "acc", "loss", "clients", "steps", "samples", "bytes_up", "bytes_down", "seconds"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const auto* key : {"all", "many", "med", "few", "per_class"}) EXPECT_TRUE(json["acc"].contains(key)) << key;
  EXPECT_EQ(json["acc"]["per_class"], Json({0.75, 0.25}));
  EXPECT_EQ(json["delta"], Json({{"mean", {-1.0, 1.0}}, {"std", {0.5, 0.25}}}));
  EXPECT_EQ(json["beta"]["pos"], Json({2.0, 3.0}));
  EXPECT_EQ(json["beta"]["neg"], Json({4.0, 5.0}));
  EXPECT_EQ(json["prior"], Json({{"p", {0.1, 1.0}}, {"l2", 0.2}, {"tail_hit", 0.75}}));
  EXPECT_EQ(json["f1"], 0.4);
  EXPECT_EQ(json["measures"], Json({{"balanced_accuracy", 0.5}, {"auroc", 0.75}, {"ece", 0.125}}));
  EXPECT_EQ(json["validation_measures"], Json({{"balanced_accuracy", 0.55}}));
  EXPECT_FALSE(json["acc"].contains("measures"));  // the fields of `acc` stay those of version 0.1
}

TEST(RoundRecord, StartsWithTheRound) { EXPECT_EQ(to_json(full_record()).dump().substr(0, 11), "{\"round\":7,"); }

TEST(RoundRecord, LeavesOutWhatWasNotMeasured) {
  const RoundRecord plain{.round = 1};
  for (const auto* key : {"acc", "f1", "measures", "validation", "validation_measures", "test_loss", "delta", "beta",
                          "prior", "client_acc"})
    EXPECT_FALSE(to_json(plain).contains(key)) << key;
}

TEST(RoundRecord, AnInfiniteEpsilonIsNullAndNoneIsLeftOut) {
  RoundRecord r{.round = 1};
  EXPECT_FALSE(to_json(r).contains("epsilon"));
  EXPECT_FALSE(round_from_json(to_json(r)).epsilon);
  r.epsilon = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(to_json(r)["epsilon"].is_null());
  EXPECT_EQ(round_from_json(Json::parse(to_json(r).dump())).epsilon, r.epsilon);
  r.epsilon = 2.5;
  EXPECT_EQ(round_from_json(Json::parse(to_json(r).dump())).epsilon, 2.5);
}

TEST(RoundRecord, AnEmptyGroupIsNull) {
  RoundRecord r{.round = 1};
  r.accuracy = Accuracy{.all = 0.5, .many = 0.5, .per_class = {0.5}};
  const Json json = to_json(r);
  EXPECT_TRUE(json["acc"]["med"].is_null());
  EXPECT_TRUE(json["acc"]["few"].is_null());
  const RoundRecord back = round_from_json(Json::parse(json.dump()));
  EXPECT_EQ(back.accuracy->many, 0.5);
  EXPECT_FALSE(back.accuracy->med);
  EXPECT_FALSE(back.accuracy->few);
}

TEST(RoundRecord, ComesBackFromItsLine) {
  for (const RoundRecord& record : {full_record(), RoundRecord{.round = 3}}) {
    const std::string line = to_json(record).dump();
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(to_json(round_from_json(Json::parse(line))).dump(), line);
  }
}

TEST(RoundRecord, ReadsALineOfTheContractAlone) {
  // As another engine or an older version may write it.
  const RoundRecord r = round_from_json(Json::parse(
      R"({"round":1,"acc":{"all":0.5,"many":0.6,"med":null,"few":0.1,"per_class":[0.9,0.1]},"loss":1.5,"clients":40,)"
      R"("steps":10,"samples":320,"bytes_up":8,"bytes_down":16,"seconds":2.5,"delta":{"mean":[1,2],"std":[0,0]},)"
      R"("beta":{"pos":[1,2],"neg":[3,4]},"prior":{"p":[0.5,1],"l2":0.1,"tail_hit":1},"personal":{}})"));
  EXPECT_EQ(r.accuracy->few, 0.1);
  EXPECT_EQ(r.bytes_down, 16);
  EXPECT_EQ(r.diagnostics.at("beta_neg").mean, (std::vector<double>{3, 4}));
  EXPECT_EQ(r.prior->tail_hit, 1);
  EXPECT_EQ(r.seconds, 2.5);
}

TEST(RoundRecord, WhatDependsOnTheClockSaysSoInItsKey) {
  RoundRecord slow = full_record();
  slow.seconds = 1000;
  for (auto& [phase, seconds] : slow.phase_seconds) seconds = 500;
  const Json a = to_json(full_record()), b = to_json(slow);
  ASSERT_EQ(keys(a), keys(b));
  for (const auto& key : keys(a)) EXPECT_EQ(a[key] == b[key], key.find("seconds") == std::string::npos) << key;
}

TEST(SummaryJson, HasTheKeysScriptsRelyOn) {
  Summary summary{.rounds = 20};
  summary.last = summary.mean_last_10 = summary.best = Accuracy{.all = 0.5, .many = 0.5, .med = 0.25, .per_class = {1}};
  summary.best_round = 12;
  summary.groups = {{0}, {1, 2}, {3}};
  summary.class_names = {"a", "b", "c", "d"};
  summary.seconds = 3;
  summary.peak_memory_bytes = 1024;
  const Json json = to_json(summary);
  for (const auto* which : {"last", "mean_last_10", "best"}) {
    EXPECT_EQ(json[which]["all"], 0.5) << which;
    EXPECT_TRUE(json[which]["few"].is_null()) << which;
  }
  EXPECT_EQ(json["best"]["round"], 12);
  EXPECT_EQ(json["best"]["chosen_on"], "test set");  // a best of the test set is labelled as such
  EXPECT_TRUE(json["few_reached_0.55"].is_null());
  EXPECT_EQ(json["groups"], Json({{"many", {0}}, {"med", {1, 2}}, {"few", {3}}}));
  EXPECT_EQ(json["seconds"], 3.0);
  EXPECT_EQ(json["peak_memory_bytes"], 1024);
  EXPECT_EQ(json["version"], version());
  EXPECT_EQ(json["revision"], revision());

  EXPECT_FALSE(json.contains("measures"));
  EXPECT_FALSE(json["last"].contains("measures"));

  summary.groups.thirds = true;
  summary.last.measures = {{Measure::auroc, 0.75}};
  summary.last_measures =
      MeasureReport{.images = 10, .resamples = 100, .specificity = 0.9, .values = {}, .auroc = {}, .sensitivity = {}};
  summary.last_measures->values[Measure::ece] = {0.25, Interval{0.125, 0.5}};
  summary.last_measures->auroc = {MeasuredValue{0.75, {}}, std::nullopt};
  const Json more = to_json(summary);
  EXPECT_EQ(more["groups"]["thirds"], true);
  EXPECT_EQ(more["last"]["measures"], Json({{"auroc", 0.75}}));
  EXPECT_EQ(more["measures"]["last"]["ece"], Json({{"value", 0.25}, {"low", 0.125}, {"high", 0.5}}));
  EXPECT_EQ(more["measures"]["last"]["per_class"]["auroc"], Json({{{"value", 0.75}}, nullptr}));
  EXPECT_FALSE(more["measures"].contains("best"));

  summary.best_by_validation = true;
  summary.few_round = 9;
  EXPECT_EQ(to_json(summary)["best"]["chosen_on"], "validation");
  EXPECT_EQ(to_json(summary)["few_reached_0.55"], 9);
}

}  // namespace fedgrab::schema_test
