#include "fedgrab/experiment/sweep.h"

#include <gtest/gtest.h>

#include "fedgrab/core/file.h"
#include "fedgrab/experiment/round_loop.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::sweep_test {

/// Runs of half a second.
const std::string small = R"(
[data]
per_class = 20
test_per_class = 3
[longtail]
factor = 5
[partition]
clients = 2
[train]
rounds = 2
local_epochs = 1
[engine]
workers = 1
[record]
tensorboard = false
)";

class SweepTest : public testing::Test {
 protected:
  SweepOptions options(const std::string& sweep) const {
    return {.file = scratch_.write("grid.toml", small + sweep), .out = scratch_.path("out"), .jobs = {.quiet = true}};
  }
  std::filesystem::file_time_type written(const std::string& cell) const {
    return std::filesystem::last_write_time(scratch_.path("out/" + cell + "/summary.json"));
  }

  ScratchFolder scratch_;
};

TEST_F(SweepTest, TheLastAxisChangesFastest) {
  const auto file = scratch_.write("a.toml", "[sweep]\nmethod = [\"fedavg\", \"fedprox\"]\ntrain.seed = [1, 2]\n");
  std::vector<std::string> names;
  for (const auto& cell : cells_of(read_grids(read_toml(file)))) names.push_back(cell.name);
  EXPECT_EQ(names, (std::vector<std::string>{"fedavg-seed1", "fedavg-seed2", "fedprox-seed1", "fedprox-seed2"}));
}

TEST_F(SweepTest, AxesKeepTheOrderOfTheFile) {
  const auto file =
      scratch_.write("a.toml", "[sweep]\ntrain.seed = [1]\nmethod = [\"fedavg\"]\n\"longtail.factor\" = [5]\n");
  EXPECT_EQ(cells_of(read_grids(read_toml(file))).front().name, "seed1-fedavg-factor5");
}

TEST_F(SweepTest, SeveralGridsInOneFile) {
  const auto file = scratch_.write("a.toml",
                                   "[[sweep]]\nmethod = [\"fedavg\"]\n\"partition.alpha\" = [1, 0.5]\n"
                                   "[[sweep]]\nmethod = [\"central\"]\n[sweep.with.central]\ntrain.lr = 0.01\n");
  const auto cells = cells_of(read_grids(read_toml(file)));
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[1].name, "fedavg-alpha0.5");
  EXPECT_EQ(cells[2].name, "central");
  EXPECT_EQ(cells[1].value("partition.alpha"), "0.5");
  EXPECT_EQ(cells[2].value("partition.alpha"), std::nullopt);
  EXPECT_EQ(cells[2].all.size(), 2U);
  const auto table = run_sweep(options("[[sweep]]\nmethod = [\"fedavg\"]\n\"partition.alpha\" = [1]\n"
                                       "[[sweep]]\nmethod = [\"central\"]\n"))
                         .table.to_csv();
  EXPECT_NE(table.find("\nfedavg,1,0."), std::string::npos) << table;
  EXPECT_NE(table.find("\ncentral,,0."), std::string::npos) << table;
}

TEST_F(SweepTest, AMethodMayHaveValuesOfItsOwn) {
  const auto file = scratch_.write("a.toml",
                                   "[sweep]\nmethod = [\"fedavg\", \"fedprox\"]\n"
                                   "[sweep.with.fedprox]\n\"client.prox.mu\" = 0.5\ntrain.lr = 0.01\n");
  const auto cells = cells_of(read_grids(read_toml(file)));
  EXPECT_EQ(cells[0].all.size(), 1U);
  const auto config = resolve_config(file, cells[1].all);
  EXPECT_EQ(std::get<double>(config.get("client.prox.mu")), 0.5);
  EXPECT_EQ(std::get<double>(config.get("train.lr")), 0.01);
}

TEST_F(SweepTest, ComparesOverSeedsAndNeverRunsACellTwice) {
  const auto sweep = options("[sweep]\nmethod = [\"fedavg\", \"ldam\"]\n\"train.seed\" = [1, 2]\n");
  const auto table = run_sweep(sweep).table.to_text();
  EXPECT_NE(table.find("fedavg"), std::string::npos);
  EXPECT_NE(table.find("2/2"), std::string::npos);
  EXPECT_NE(table.find("±"), std::string::npos);
  const auto first = written("fedavg-seed1");

  // A third seed: what is there stays; what was cut short goes on.
  std::filesystem::remove(scratch_.path("out/ldam-seed2/summary.json"));
  const auto more = options("[sweep]\nmethod = [\"fedavg\", \"ldam\"]\n\"train.seed\" = [1, 2, 3]\n");
  EXPECT_NE(run_sweep(more).table.to_text().find("3/3"), std::string::npos);
  EXPECT_EQ(written("fedavg-seed1"), first);
  EXPECT_EQ(read_text(scratch_.path("out/table.md")), run_sweep(more).table.to_markdown());
}

TEST_F(SweepTest, ACellIsTheRunItNames) {
  run_sweep(options("[sweep]\nmethod = [\"fedlc\"]\n\"train.seed\" = [4]\n"));
  const auto config = resolve_config(scratch_.path("grid.toml"), {{"method", "fedlc"}, {"train.seed", "4"}});
  run_experiment(config, {.directory = {scratch_.path("alone")}, .quiet = true});
  const RunDirectory cell{scratch_.path("out/fedlc-seed4")}, alone{scratch_.path("alone")};
  EXPECT_EQ(cell.read_summary().at("last").dump(), alone.read_summary().at("last").dump());
}

TEST_F(SweepTest, ACellThatDivergesLeavesTheOthersAlone) {
  const auto result =
      run_sweep(options("[sweep]\nmethod = [\"fedavg\", \"fedprox\"]\n"
                        "[sweep.with.fedavg]\n\"train.lr\" = 1000\n\"train.momentum\" = 0.99\n"));
  ASSERT_EQ(result.failed.size(), 1U);
  EXPECT_NE(result.failed.front().find("fedavg"), std::string::npos);
  EXPECT_NE(result.table.to_text().find("failed"), std::string::npos);
  EXPECT_NE(result.table.to_text().find("1/1"), std::string::npos);
}

TEST_F(SweepTest, SaysWhatIsWrongBeforeAnythingRuns) {
  const auto refused = [&](const std::string& sweep, const std::vector<std::string>& fragments) {
    expect_error(
        Fault::usage, [&] { run_sweep(options(sweep)); }, fragments);
    EXPECT_FALSE(std::filesystem::exists(scratch_.path("out")));
  };
  refused("", {"grid.toml", "[sweep]"});
  refused("[sweep]\n", {"no values"});
  refused("[sweep]\nmethod = []\n", {"method.name", "empty"});
  refused("[sweep]\nmethod = [\"fedavg\", \"fedavgg\"]\n", {"fedavgg", "did you mean"});
  refused("[sweep]\n\"train.sed\" = [1]\n", {"train.sed", "train.seed"});
  refused("[sweep]\n\"train.lr\" = [0.1, -1]\n", {"train.lr", "-1"});
  refused("[sweep]\n\"train.seed\" = [1, 1]\n", {"seed1"});
  refused("[sweep]\nmethod = [\"fedavg\"]\n[sweep.with.fedavgg]\n\"train.lr\" = 1\n", {"fedavgg"});
  refused("[sweep\n", {"grid.toml"});
  // A row must have been run with what it says.
  refused("[sweep]\nmethod = [\"fedavg\"]\n\"train.lr\" = [0.1, 0.2]\n[sweep.with.fedavg]\n\"train.lr\" = 0.3\n",
          {"train.lr", "fedavg"});
  refused("[sweep]\nmethod = [\"fedavg\"]\n[sweep.with.fedavg]\nmethod.name = \"moon\"\n", {"method.name"});
  refused("[sweep]\nmethod = [\"fedavg\"]\n[sweep.with.moon]\n\"train.lr\" = 0.3\n", {"moon"});
}

TEST_F(SweepTest, ALaterCellWithoutDataShowsBeforeTheFirstIsTrained) {
  auto sweep = options("[sweep]\nmethod = [\"fedavg\"]\n\"partition.clients\" = [2, 1000]\n");
  expect_error(Fault::data, [&] { run_sweep(sweep); }, {"fedavg-clients1000", "1000 clients"});
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("out")));
}

TEST_F(SweepTest, AFinishedRunWithOtherValuesIsNotTakenForACell) {
  auto other = options("[sweep]\nmethod = [\"fedavg\"]\n");
  other.flags = {{"train.lr", "0.03"}};
  run_sweep(other);
  other.flags.clear();  // a default is a value, too
  expect_error(Fault::usage, [&] { run_sweep(other); }, {"train.lr", "0.1 differs from 0.03"});
  other.flags = {{"train.lr", "0.02"}};
  expect_error(Fault::usage, [&] { run_sweep(other); }, {"train.lr", "0.02"});
}

TEST_F(SweepTest, AFlagMayNotContradictAnAxis) {
  auto sweep = options("[sweep]\nmethod = [\"fedavg\"]\n");
  sweep.flags = {{"method", "moon"}};
  expect_error(Fault::usage, [&] { run_sweep(sweep); }, {"method", "grid.toml"});
}

TEST_F(SweepTest, AFlagMayNotContradictWhatAMethodHasForItself) {
  auto some = options("[sweep]\nmethod = [\"fedavg\"]\n[sweep.with.fedavg]\n\"train.lr\" = 0.01\n");
  some.flags = {{"train.lr", "0.2"}};
  expect_error(Fault::usage, [&] { run_sweep(some); }, {"train.lr", "varied by"});
}

TEST_F(SweepTest, ADamagedCellLeavesTheOthersAlone) {
  const auto some = options("[sweep]\n\"train.seed\" = [1, 2]\n");
  EXPECT_TRUE(run_sweep(some).failed.empty());
  scratch_.write("out/seed1/summary.json", "{}");
  const auto result = run_sweep(some);
  ASSERT_EQ(result.failed.size(), 1U);
  EXPECT_NE(result.failed.front().find("seed1/summary.json: is damaged"), std::string::npos) << result.failed.front();
  EXPECT_NE(result.table.to_csv().find(",1/2,"), std::string::npos) << result.table.to_csv();
}

TEST_F(SweepTest, NumbersAreSpelledAsInTheFile) {
  const auto file = scratch_.write("a.toml", "[sweep]\n\"train.lr\" = [0.1, 0.3]\n");
  EXPECT_EQ(cells_of(read_grids(read_toml(file))).front().name, "lr0.1");
}

TEST_F(SweepTest, NeverMixesRunsOfDifferentLength) {
  run_sweep(options("[sweep]\nmethod = [\"fedavg\"]\n"));
  auto shorter = options("[sweep]\nmethod = [\"fedavg\", \"fedprox\"]\n");
  shorter.flags = {{"train.rounds", "1"}};
  expect_error(Fault::usage, [&] { run_sweep(shorter); }, {"2 rounds", "--out"});
}

}  // namespace fedgrab::sweep_test
