#include "fedgrab/report/report_data.h"

#include <gtest/gtest.h>

#include "fedgrab/report/experiments.h"
#include "report/thinning.h"

namespace fedgrab::report_data_test {

Run long_run(int64_t rounds) {
  Run run{.name = "a", .rounds = rounds};
  for (int64_t round = 1; round <= rounds; ++round) {
    RoundRecord record{.round = round};
    record.accuracy =
        Accuracy{.all = static_cast<double>(round) / static_cast<double>(rounds), .per_class = {0.25, 0.75}};
    run.records.push_back(record);
  }
  run.summary.emplace();
  run.population = Population{{"common", "rare"}, {10, 1}, {{0}, {}, {1}}, {{{0, 10}}, {{1, 1}}}};
  return run;
}

TEST(Thinning, KeepsTheEndsAndSaysWhatItDid) {
  EXPECT_EQ(thin(5, 5).kept, (std::vector<size_t>{0, 1, 2, 3, 4}));
  const auto thinned = thin(10, 4);
  EXPECT_EQ(thinned.kept, (std::vector<size_t>{0, 3, 6, 9}));
  EXPECT_EQ(thinned.every, 3U);
  EXPECT_EQ(thin(11, 4).kept.back(), 10U);
}

TEST(ReportData, ThinsCurvesButKnowsEveryNewBest) {
  const std::vector runs{long_run(2000)};
  const Json run = report_data(runs)["runs"][0];
  EXPECT_EQ(run["curves"]["every"], 4);
  EXPECT_EQ(run["curves"]["round"].back(), 2000);
  EXPECT_EQ(run["records"]["all"].size(), 1999U);  // what two evaluations in a row reached
  EXPECT_EQ(run["classes"]["group"], (Json{"many", "few"}));
  EXPECT_EQ(run["clients"]["counts"], (Json{{10, 0}, {0, 1}}));
}

TEST(ReportData, ASingleSpikeIsNoNewBest) {
  std::vector runs{long_run(10)};
  runs[0].records[4].accuracy->all = 0.99;
  EXPECT_EQ(report_data(runs)["runs"][0]["records"]["all"].back(), (Json{9, 0.9}));
}

TEST(ReportData, HasMeasuresWithIntervalsAndTheirCurves) {
  std::vector runs{long_run(10)};
  for (auto& record : runs[0].records) record.accuracy->measures[Measure::auroc] = 0.75;
  runs[0].summary->last.measures[Measure::auroc] = 0.75;
  runs[0].measures = Json::parse(R"({"last":{"images":80,"auroc":{"value":0.123456789,"low":0.1,"high":0.2}}})");
  const Json run = report_data(runs)["runs"][0];
  EXPECT_EQ(run["curves"]["auroc"], Json(std::vector<double>(10, 0.75)));
  EXPECT_FALSE(run["curves"].contains("ece"));
  EXPECT_EQ(run["result"]["last"]["auroc"], 0.75);
  EXPECT_EQ(run["measures"], Json::parse(R"({"last":{"images":80,"auroc":{"value":0.1235,"low":0.1,"high":0.2}}})"));
}

TEST(ReportData, NamesNoFolderOfThisMachine) {
  std::vector<fedgrab::Run> runs{long_run(2), long_run(2)};
  runs[0].config = {{"method.name", "fedavg"}, {"data.path", "/home/somebody/skin"}, {"data.cache", ""}};
  runs[1].config = {
      {"method.name", "fedavg"}, {"data.path", "/home/other/skin"}, {"model.init", "/home/other/a.safetensors"}};
  const Json data = report_data(runs);
  EXPECT_EQ(data.dump().find("/home"), std::string::npos) << data.dump();
  EXPECT_EQ(data["runs"][0]["config"]["data.path"], "skin");
  EXPECT_EQ(experiments_of(runs).all.size(), 2U) << "folders of one name are two data sets";
}

using Keys = std::set<std::string>;
using Names = std::vector<std::string>;
using Values = std::map<std::string, std::string>;

/// Of a run with these values and those of them that are not its preset's.
Run configured(Values config, std::optional<Keys> changed) {
  Run run = long_run(2);
  run.config = std::move(config);
  run.changed = std::move(changed);
  return run;
}

Names names_of(const std::vector<fedgrab::Run>& runs) {
  Names names;
  const Json data = report_data(runs);
  for (const auto& run : data["runs"]) names.push_back(run["experiment"]);
  return names;
}

const Values fedavg{{"method.name", "fedavg"}, {"objective.name", "softmax"}, {"server.optimizer", "none"}};
const Values fedgrab{{"method.name", "fedgrab"}, {"objective.name", "sgb"}, {"server.optimizer", "none"}};
const Values fedavgm{{"method.name", "fedavgm"}, {"objective.name", "softmax"}, {"server.optimizer", "momentum"}};

TEST(ExperimentNames, DoNotRepeatThePreset) {
  EXPECT_EQ(names_of({configured(fedavg, Keys{}), configured(fedgrab, Keys{})}), (Names{"fedavg", "fedgrab"}));
}

TEST(ExperimentNames, SayWhatWasChangedBesideThePreset) {
  Values with_momentum = fedavg;
  with_momentum["server.optimizer"] = "momentum";
  const auto changed = configured(with_momentum, Keys{"server.optimizer"});
  EXPECT_EQ(names_of({changed, configured(fedgrab, Keys{})}),
            (Names{"fedavg, server.optimizer momentum", "fedgrab, server.optimizer none"}));
  EXPECT_EQ(names_of({changed, configured(fedavgm, Keys{})}),
            (Names{"fedavg, server.optimizer momentum", "fedavgm, server.optimizer momentum"}))
      << "the preset of one is what the other was given";
  EXPECT_EQ(names_of({changed, changed}), (Names{"fedavg", "fedavg"})) << "the same for all";
}

TEST(ExperimentNames, KnowTwoDefaultsOfOneMethodApart) {
  Values before = fedavg, now = fedavg;
  before["train.lr"] = "0.03";
  now["train.lr"] = "0.05";
  EXPECT_EQ(names_of({configured(before, Keys{}), configured(now, Keys{})}),
            (Names{"fedavg, train.lr 0.03", "fedavg, train.lr 0.05"}));
}

TEST(ExperimentNames, OfRunsThatDoNotSayWhatTheyChangedNameAllThatDiffers) {
  EXPECT_EQ(names_of({configured(fedavg, std::nullopt), configured(fedgrab, std::nullopt)}),
            (Names{"fedavg, objective.name softmax", "fedgrab, objective.name sgb"}));
}

TEST(ReportData, LeavesOutWhatIsNotRecorded) {
  const std::vector<fedgrab::Run> runs{{.name = "new", .rounds = 5}};
  const Json run = report_data(runs)["runs"][0];
  for (const char* key :
       {"curves", "records", "per_class", "diagnostics", "prior", "confusion", "clients", "cost", "measures"})
    EXPECT_FALSE(run.contains(key)) << key;
}

}  // namespace fedgrab::report_data_test
