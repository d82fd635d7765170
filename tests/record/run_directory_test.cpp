#include "fedgrab/record/run_directory.h"

#include <gtest/gtest.h>

#include "tests/data/scratch_folder.h"

namespace fedgrab::run_directory_test {

std::string line(int64_t round) { return to_json(RoundRecord{.round = round}).dump() + "\n"; }

class RunDirectoryTest : public testing::Test {
 protected:
  ScratchFolder scratch_;
  RunDirectory directory_{scratch_.path()};
};

TEST_F(RunDirectoryTest, ANewOneIsNeitherStartedNorFinished) {
  EXPECT_FALSE(directory_.exists());
  EXPECT_FALSE(directory_.finished());
  EXPECT_TRUE(directory_.read_metrics().empty());
  EXPECT_TRUE(directory_.checkpoint_rounds().empty());
}

TEST_F(RunDirectoryTest, AConfigMeansStartedAndASummaryFinished) {
  scratch_.write("config.toml", "");
  EXPECT_TRUE(directory_.exists());
  EXPECT_FALSE(directory_.finished());
  scratch_.write("summary.json", "{\"rounds\":3}\n");
  EXPECT_TRUE(directory_.finished());
  EXPECT_EQ(directory_.read_summary()["rounds"], 3);
}

TEST_F(RunDirectoryTest, ReadsItsMetricsInOrder) {
  scratch_.write("metrics.jsonl", line(1) + line(2) + line(3));
  const auto records = directory_.read_metrics();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].round, 1);
  EXPECT_EQ(records[2].round, 3);
}

TEST_F(RunDirectoryTest, LeavesOutALastLineThatIsHalfWritten) {
  const std::string whole = line(1) + line(2), next = line(3);
  for (size_t cut = 0; cut < next.size(); ++cut) {  // a kill may come after any byte
    scratch_.write("metrics.jsonl", whole + next.substr(0, cut));
    EXPECT_EQ(directory_.read_metrics().size(), 2U) << "cut after " << cut;
  }
}

TEST_F(RunDirectoryTest, NamesFileAndLineOfWhatIsNoRecord) {
  for (const auto* bad : {"not json", "{\"acc\":{}}", "[]", "{\"round\":1,\"acc\":{\"all\":\"high\"}}", "",
                          "{\"round\":2e99}", "{\"round\":2,\"steps\":1e300}", "{\"round\":2.5}"}) {
    scratch_.write("metrics.jsonl", line(1) + bad + "\n" + line(3));
    expect_error(Fault::data, [&] { directory_.read_metrics(); }, {"metrics.jsonl", "line 2"});
  }
}

TEST_F(RunDirectoryTest, EachLineIsOfItsRound) {
  for (const auto& [log, fault] :
       std::vector<std::pair<std::string, std::string>>{{line(2), "line 1 is of round 2"},
                                                        {line(1) + line(1), "line 2 is of round 1"},
                                                        {line(1) + line(3), "line 2 is of round 3"},
                                                        {line(0) + line(1), "line 1 is of round 0"}}) {
    scratch_.write("metrics.jsonl", log);
    expect_error(Fault::data, [&] { directory_.read_metrics(); }, {"metrics.jsonl", fault});
  }
  scratch_.write("metrics.jsonl", line(1) + line(3));
  expect_error(Fault::data, [&] { directory_.last_round(); }, {"metrics.jsonl", "line 2 is of round 3"});
}

TEST_F(RunDirectoryTest, EveryEvaluationHasTheSameParts) {
  const auto evaluated = [](int64_t round, std::vector<double> per_class, std::optional<Accuracy> validation) {
    const RoundRecord record{
        .round = round, .accuracy = Accuracy{.per_class = std::move(per_class)}, .validation = std::move(validation)};
    return to_json(record).dump() + "\n";
  };
  const std::string whole = evaluated(1, {0.5, 0.25}, Accuracy()) + line(2);
  scratch_.write("metrics.jsonl", whole + evaluated(3, {0.5}, Accuracy()));
  expect_error(Fault::data, [&] { directory_.read_metrics(); }, {"metrics.jsonl", "rounds 1 and 3", "classes"});
  scratch_.write("metrics.jsonl", whole + evaluated(3, {0.5, 0.75}, std::nullopt));
  expect_error(Fault::data, [&] { directory_.read_metrics(); }, {"metrics.jsonl", "rounds 1 and 3", "validation"});
  scratch_.write("metrics.jsonl", whole + evaluated(3, {0.5, 0.75}, Accuracy()));
  EXPECT_EQ(directory_.read_metrics().size(), 3U);
}

TEST_F(RunDirectoryTest, RefusesFilesNestedWithoutEnd) {
  const std::string deep = "{\"x\":" + std::string(20000, '[') + std::string(20000, ']') + "}\n";
  scratch_.write("metrics.jsonl", line(1) + deep);
  scratch_.write("summary.json", deep);
  expect_error(Fault::data, [&] { directory_.read_metrics(); }, {"metrics.jsonl", "nested"});
  expect_error(Fault::data, [&] { directory_.last_round(); }, {"metrics.jsonl", "nested"});
  expect_error(Fault::data, [&] { directory_.read_summary(); }, {"summary.json", "nested"});
  expect_error(Fault::data, [&] { directory_.read_population(); }, {"summary.json", "nested"});
  scratch_.write("classes.json", deep);
  expect_error(Fault::data, [&] { directory_.read_population(); }, {"classes.json", "nested"});
}

TEST_F(RunDirectoryTest, NamesASummaryThatCannotBeRead) {
  expect_error(Fault::data, [&] { directory_.read_summary(); }, {"summary.json"});
  scratch_.write("summary.json", "{\"rounds\":");
  expect_error(Fault::data, [&] { directory_.read_summary(); }, {"summary.json"});
}

TEST_F(RunDirectoryTest, ListsItsCheckpointsByRound) {
  for (const int64_t round : {100, 9, 1000000, 20})
    scratch_.write("checkpoints/" + directory_.checkpoint(round).filename().string(), "");
  EXPECT_EQ(directory_.checkpoint_rounds(), (std::vector<int64_t>{9, 20, 100, 1000000}));
}

TEST_F(RunDirectoryTest, PassesOverFilesThatAreNoCheckpoints) {
  scratch_.write("checkpoints/" + directory_.checkpoint(5).filename().string(), "");
  for (const auto* name : {"round-000007.safetensors.partial", "notes.txt", "round-.safetensors",
                           "round-000005 (copy).safetensors", "round-6.safetensors"})
    scratch_.write(std::string("checkpoints/") + name, "");
  EXPECT_EQ(directory_.checkpoint_rounds(), (std::vector<int64_t>{5}));
}

}  // namespace fedgrab::run_directory_test
