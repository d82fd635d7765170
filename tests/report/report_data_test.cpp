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

TEST(ReportData, LeavesOutWhatIsNotRecorded) {
  const std::vector<fedgrab::Run> runs{{.name = "new", .rounds = 5}};
  const Json run = report_data(runs)["runs"][0];
  for (const char* key :
       {"curves", "records", "per_class", "diagnostics", "prior", "confusion", "clients", "cost", "measures"})
    EXPECT_FALSE(run.contains(key)) << key;
}

}  // namespace fedgrab::report_data_test
