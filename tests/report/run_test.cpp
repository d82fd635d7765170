#include "fedgrab/report/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/report/report_data.h"
#include "fedgrab/report/run_table.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::run_test {

namespace fs = std::filesystem;

class Runs : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& config, const std::string& metrics = "") {
    make_folder(root_ / name);
    write_atomically(root_ / name / "config.toml", config);
    if (!metrics.empty()) write_atomically(root_ / name / "metrics.jsonl", metrics);
  }
  void write_ended(const std::string& name, const std::string& config, const std::string& metrics) {
    write(name, config, metrics);
    write_atomically(root_ / name / "summary.json",
                     R"({"class_names":[],"class_counts":[],"groups":{"many":[],"med":[],"few":[]}})");
  }
  std::vector<std::string> names(const std::vector<fs::path>& folders) {
    std::vector<std::string> found;
    for (const auto& run : find_runs(folders)) found.push_back(run.name);
    return found;
  }
  ScratchFolder scratch_;
  fs::path root_ = scratch_.path();
};

const std::string one_round = R"({"round":1,"acc":{"all":0.5,"many":0.9,"med":0.5,"few":0.1},"loss":1,"seconds":2})"
                              "\n";

TEST_F(Runs, AreFoundInFoldersOfFolders) {
  write("b", "");
  write("sweep/a", "");
  make_folder(root_ / "empty");
  EXPECT_EQ(names({root_}), (std::vector<std::string>{"b", "sweep/a"}));
  EXPECT_EQ(names({root_ / "sweep" / "a/"}), (std::vector<std::string>{"a"}));
}

TEST_F(Runs, OfTheSameNameAreToldApartByTheirPaths) {
  write("x/a", "");
  write("y/a", "");
  EXPECT_EQ(names({root_ / "x/a", root_ / "y/a"}),
            (std::vector<std::string>{(root_ / "x/a").string(), (root_ / "y/a").string()}));
}

TEST_F(Runs, KnowWhetherAProcessWritesThem) {
  write("a", "");
  EXPECT_EQ(state_of({root_ / "a"}), RunState::waiting);
  {
    const LineLog log(root_ / "a/metrics.jsonl", 0);
    EXPECT_EQ(state_of({root_ / "a"}), RunState::running);
  }
  EXPECT_EQ(state_of({root_ / "a"}), RunState::stopped);
}

constexpr int fine = 0, wrong = 1, impossible = 77;

/// Two file systems of our own, filled alike, so that their files have the same inode numbers.
int states_on_two_file_systems(const fs::path& root) {
  if (::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return impossible;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return impossible;
  std::vector<ino_t> inodes;
  for (const char* name : {"a", "b"}) {
    make_folder(root / name);
    if (::mount("none", (root / name).c_str(), "tmpfs", 0, nullptr) != 0) return impossible;
    write_atomically(root / name / "config.toml", "");
    write_atomically(root / name / "metrics.jsonl", one_round);
    struct stat status {};
    ::stat((root / name / "metrics.jsonl").c_str(), &status);
    inodes.push_back(status.st_ino);
  }
  if (inodes.front() != inodes.back()) return impossible;
  const LineLog log(root / "a/metrics.jsonl");
  return state_of({root / "a"}) == RunState::running && state_of({root / "b"}) == RunState::stopped ? fine : wrong;
}

TEST_F(Runs, AreNotTakenForThoseOfAnotherFileSystem) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(states_on_two_file_systems(root_));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == impossible) GTEST_SKIP() << "no file systems can be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), fine);
}

TEST_F(Runs, ReadWithoutASummaryOrClasses) {
  write("a", "[train]\nrounds = 3\n", one_round);
  const auto run = read_run({"a", {root_ / "a"}});
  EXPECT_EQ(run.rounds, 3);
  EXPECT_DOUBLE_EQ(run.summary->last.all, 0.5);
  EXPECT_FALSE(run.population);
  EXPECT_FALSE(run.seconds_left());
}

TEST_F(Runs, AFolderWithoutAnyIsAnError) { EXPECT_THROW(read_runs({root_}), Error); }

TEST_F(Runs, GivenTwiceOrThroughALinkAreOne) {
  write("runs/a", "");
  fs::create_directory_symlink(".", root_ / "runs/loop");
  EXPECT_EQ(names({root_ / "runs", root_ / "runs/a"}), (std::vector<std::string>{"a"}));
}

TEST_F(Runs, ThatCannotBeReadAreLeftOutUnlessTheyAreAll) {
  write("good", "", one_round);
  write("bad", "", "nonsense\n");
  EXPECT_EQ(read_runs({root_}).size(), 1U);
  EXPECT_THROW(read_runs({root_ / "bad"}), Error);
}

TEST_F(Runs, WhoseFilesDoNotFitTogetherAreNoRuns) {
  const std::string with_classes =
      R"({"round":1,"acc":{"all":0.5,"many":0.9,"med":0.5,"few":0.1,"per_class":[0.5,0.5]},"loss":1,"seconds":2})"
      "\n";
  const auto error_of = [&](const std::string& classes, const std::string& metrics) -> std::string {
    write("a", "", metrics);
    write_atomically(root_ / "a/classes.json", classes);
    try {
      read_runs({root_ / "a"});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto classes = [](const char* counts, const char* few, const char* client) {
    return fmt::format(
        R"({{"class_names":["x","y"],"class_counts":{},"groups":{{"many":[0],"med":[],"few":{}}},"clients":[{}]}})",
        counts, few, client);
  };
  EXPECT_EQ(error_of(classes("[9,1]", "[1]", "[[1,1]]"), with_classes), "");
  EXPECT_NE(error_of(classes("[9,1,1]", "[1]", "[[1,1]]"), with_classes).find("classes.json"), std::string::npos);
  EXPECT_NE(error_of(classes("[9,1]", "[2]", "[[1,1]]"), with_classes).find("group"), std::string::npos);
  EXPECT_NE(error_of(classes("[9,1]", "[1]", "[[7,1]]"), with_classes).find("client"), std::string::npos);
  const std::string three = std::string(with_classes).replace(with_classes.find("[0.5,0.5]"), 9, "[0.5,0.5,1]");
  EXPECT_NE(error_of(classes("[9,1]", "[1]", "[[1,1]]"), three).find("metrics.jsonl"), std::string::npos);
}

std::string settings(int seed, const std::string& rest = "") {
  return fmt::format("[method]\nname = \"m\"\n[train]\nseed = {}\n{}", seed, rest);
}
const std::string better_round = R"({"round":1,"acc":{"all":0.7,"many":0.9,"med":0.5,"few":0.1},"loss":1,"seconds":2})"
                                 "\n";

TEST_F(Runs, InATableSeedsAreOneRow) {
  write_ended("a", settings(1, "lr = 0.1\n"), one_round);
  write_ended("b", settings(2, "lr = 0.1\n"), one_round);
  write_ended("c", settings(1, "lr = 0.2\n"), one_round);
  EXPECT_EQ(run_table(read_runs({root_})).to_csv(),
            "method,train.lr,All,Many,Med,Few,runs\n"
            "m,0.1,0.500 ± 0.000,0.900 ± 0.000,0.500 ± 0.000,0.100 ± 0.000,2\n"
            "m,0.2,0.500,0.900,0.500,0.100,1\n");
}

TEST_F(Runs, InATableTheEndedOnesCount) {
  write_ended("a", settings(1), one_round);
  write("b", settings(2), better_round);
  write("c", settings(3));  // nothing evaluated yet
  EXPECT_EQ(run_table(read_runs({root_})).to_csv(), "method,All,Many,Med,Few,runs\nm,0.500,0.900,0.500,0.100,1 of 3\n");
  EXPECT_EQ(run_table(read_runs({root_ / "b", root_ / "c"})).to_csv(),
            "method,All,Many,Med,Few,runs\nm,0.700,0.900,0.500,0.100,0 of 2\n");
}

TEST_F(Runs, InATableMayHaveFurtherMeasures) {
  write_ended(
      "a", settings(1),
      R"({"round":1,"acc":{"all":0.5,"many":0.9,"med":0.5,"few":0.1,"f1":0.25},"measures":{"auroc":0.75},"loss":1})"
      "\n");
  const std::vector measures{Measure::macro_f1, Measure::auroc, Measure::ece};
  EXPECT_EQ(run_table(read_runs({root_}), measures).to_csv(),
            "method,All,Many,Med,Few,macro F1,AUROC,ECE,runs\nm,0.500,0.900,0.500,0.100,0.250,0.750,–,1\n");
  EXPECT_TRUE(run_numbers(read_runs({root_}), measures)
                  .to_csv()
                  .starts_with("method,All,All std,Many,Many std,Med,Med std,Few,Few std,macro F1,macro F1 "
                               "std,AUROC,AUROC std,ECE,ECE std,runs\n"));
}

TEST_F(Runs, AreInTheOrderOfTheirNumbers) {
  for (const char* folder : {"s/clients10", "s/clients5", "s/clients100"}) write(folder, "");
  EXPECT_EQ(names({root_}), (std::vector<std::string>{"s/clients5", "s/clients10", "s/clients100"}));
}

TEST_F(Runs, OfTheSameSeedAreNotAveraged) {
  for (const char* folder : {"x", "y"})
    for (const int seed : {1, 2})
      write_ended(fmt::format("{}/seed{}", folder, seed), settings(seed), seed == 1 ? one_round : better_round);
  EXPECT_EQ(run_table(read_runs({root_})).to_csv(),
            "method,All,Many,Med,Few,runs\n"
            "m,0.600 ± 0.141,0.900 ± 0.000,0.500 ± 0.000,0.100 ± 0.000,2\n"
            "m (2),0.600 ± 0.141,0.900 ± 0.000,0.500 ± 0.000,0.100 ± 0.000,2\n");
}

TEST_F(Runs, AsNumbersHaveTheirDeviationBesideThem) {
  write_ended("a", settings(1), one_round);
  write_ended("b", settings(2), one_round);
  EXPECT_EQ(run_numbers(read_runs({root_})).to_csv(),
            "method,All,All std,Many,Many std,Med,Med std,Few,Few std,runs\n"
            "m,0.50000,0.00000,0.90000,0.00000,0.50000,0.00000,0.10000,0.00000,2\n");
}

const std::string two_classes =
    R"({"class_names":["x","y"],"class_counts":[9,1],"groups":{"many":[0],"med":[],"few":[1]},"clients":[]})";
const std::string shown = R"({"round":1,"samples":[{"truth":0,"answer":1,"confidence":0.75,"png":"Zm8="}]})";

TEST_F(Runs, ThatAreInterruptedHaveTheConfusionMatrixOfTheirLastCheckpoint) {
  write("a", "[train]\nrounds = 3\n", one_round);
  write_atomically(root_ / "a/classes.json", two_classes);
  write_atomically(root_ / "a/evaluation.json", R"({"round":1,"confusion":[[3,1],[0,2]]})");
  write_atomically(root_ / "a/samples.json", shown);
  const Json run = report_data(read_runs({root_}))["runs"][0];
  EXPECT_EQ(run["state"], "stopped");
  EXPECT_EQ(run["confusion"]["round"], 1);
  EXPECT_EQ(run["confusion"]["counts"], (Json{{3, 1}, {0, 2}}));
  EXPECT_EQ(run["samples"]["images"][0]["answer"], 1);
  EXPECT_EQ(run["samples"]["images"][0]["png"], "Zm8=");
}

TEST_F(Runs, ThatHaveEndedHaveTheConfusionMatrixOfTheirSummary) {
  write("a", "", one_round);
  write_atomically(root_ / "a/classes.json", two_classes);
  write_atomically(root_ / "a/evaluation.json", R"({"round":1,"confusion":[[0,4],[2,0]]})");
  write_atomically(root_ / "a/summary.json", R"({"confusion":[[3,1],[0,2]]})");
  EXPECT_EQ(report_data(read_runs({root_}))["runs"][0]["confusion"]["counts"], (Json{{3, 1}, {0, 2}}));
}

TEST_F(Runs, WhoseImagesAreOfNoClassAreNoRuns) {
  write("a", "", one_round);
  write_atomically(root_ / "a/classes.json", two_classes);
  for (const char* what : {R"("truth":2)", R"("answer":-1)", R"("png":"\u0022 onerror=")"}) {
    std::string changed = shown;
    const std::string key = std::string(what).substr(0, std::string(what).find(':'));
    const auto start = changed.find(key), end = changed.find_first_of(",}", start);
    write_atomically(root_ / "a/samples.json", changed.replace(start, end - start, what));
    EXPECT_THROW(read_runs({root_ / "a"}), Error) << what;
  }
}

TEST_F(Runs, OfMethodsThatRanForOtherRoundsAreToldApart) {
  const std::string changed = "[preset]\nchanged = [\"train.rounds\"]\n";
  write_ended("a", "[method]\nname = \"x\"\n[train]\nrounds = 2\n[objective.o]\np = 1\n" + changed, one_round);
  write_ended("b", "[method]\nname = \"y\"\n[train]\nrounds = 4\n[objective.o]\np = 2\n" + changed, one_round);
  EXPECT_TRUE(run_table(read_runs({root_})).to_csv().starts_with("method,train.rounds,All,"));
}

TEST_F(Runs, OfOneExperimentDifferInTheSeedAlone) {
  write("a", settings(1, "lr = 0.1\n"), one_round);
  write("b", settings(2, "lr = 0.1\n[engine]\nworkers = 2\n"), one_round);
  write("c", settings(1, "lr = 0.2\n"), one_round);
  const auto page = report_data(read_runs({root_}));
  std::vector<std::string> names;
  for (const auto& run : page["runs"]) names.push_back(run["experiment"]);
  EXPECT_EQ(names, (std::vector<std::string>{"m, train.lr 0.1", "m, train.lr 0.1", "m, train.lr 0.2"}));
}

}  // namespace fedgrab::run_test
