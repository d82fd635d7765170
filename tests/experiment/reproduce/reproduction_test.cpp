#include "fedgrab/experiment/reproduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "experiment/reproduce/reproduction_view.h"
#include "fedgrab/core/file.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::reproduction_test {

namespace fs = std::filesystem;

/// Runs of half a second.
const Assignments small{{"data.name", "shapes"},     {"data.per_class", "20"}, {"data.test_per_class", "3"},
                        {"partition.clients", "2"},  {"model.name", "cnn"},    {"train.rounds", "2"},
                        {"train.local_epochs", "1"}, {"engine.workers", "1"},  {"eval.every", "1"}};

class ReproductionTest : public testing::Test {
 protected:
  ReproduceOptions options(std::vector<std::string> cells = {}) const {
    return {.out = scratch_.path("out"),
            .flags = small,
            .cells = std::move(cells),
            .seeds = {1},
            .jobs = {.quiet = true},
            .command = "fedgrab reproduce …",
            .revision = "test"};
  }
  std::string file(const std::string& name) const { return read_text(scratch_.path("out/" + name)); }

  ScratchFolder scratch_;
};

/// Row of a CSV that starts so.
std::string row(const std::string& csv, const std::string& start) {
  const auto at = csv.find("\n" + start);
  return at == std::string::npos ? "" : csv.substr(at + 1, csv.find('\n', at + 1) - at - 1);
}

TEST_F(ReproductionTest, AllOfThemParseAndTheirCellsAreValidSettings) {
  const auto names = reproduction_names();
  EXPECT_EQ(names.size(), 14U);
  EXPECT_EQ(names.front(), "table1");
  for (const auto& name : names) {
    SCOPED_TRACE(name);
    const auto what = find_reproduction(name);
    EXPECT_FALSE(what.title.empty());
    EXPECT_FALSE(what.needs.empty());
    const auto cells = cells_of(what, {});
    ASSERT_FALSE(cells.empty());
    EXPECT_EQ(jobs_of({name, what.grid}, cells, {}, "out").size(), cells.size());
    EXPECT_EQ(what.figure.y_label.size(), what.figure.axis == FigureAxis::cells ? 1U : what.figure.y.size());
  }
}

TEST_F(ReproductionTest, EverySeriesOfAFigureHasItsLabel) {
  for (const auto& name : reproduction_names()) {
    const auto what = find_reproduction(name);
    if (what.view == View::table) continue;
    std::set<std::string> used, given;
    for (const auto& cell : cells_of(what, {})) used.insert(cell.name_without({"train.seed", what.figure.x}));
    for (const auto& [key, label] : what.labels) given.insert(key);
    EXPECT_EQ(used, given) << name;
  }
}

TEST_F(ReproductionTest, EveryRowOfThePaperIsACellAndTheOtherWayRound) {
  const std::map<std::string, size_t> rows{{"table1", 123}, {"table2", 33}, {"table3", 24}};
  for (const auto& [name, expected] : rows) {
    const auto what = find_reproduction(name);
    ASSERT_EQ(what.paper.rows.size(), expected) << name;
    const auto cells = cells_of(what, {1});
    size_t without = 0;
    for (const auto& row : what.paper.rows) {
      ASSERT_EQ(row.size(), what.paper.columns.size()) << name << " " << row.front();
      const auto found =
          std::count_if(cells.begin(), cells.end(), [&](const auto& c) { return is_about(what.paper, row, c); });
      EXPECT_LE(found, 1) << name << " " << row[0] << " " << row[1];
      without += found == 0 ? 1 : 0;
    }
    EXPECT_EQ(cells.size(), expected - without) << name;
    EXPECT_EQ(without, name == "table2" ? 2U : 0U) << "CReFF on the two large sets";
  }
}

/// A few numbers, typed from the paper a second time.
TEST_F(ReproductionTest, ThePapersNumbers) {
  const auto line = [](const char* name, size_t at) {
    std::string text;
    const auto what = find_reproduction(name);
    for (const auto& cell : what.paper.rows.at(at)) text += cell + " ";
    return text;
  };
  EXPECT_EQ(line("table1", 0), "centralised Softmax 10 central   0.893 0.003 0.901 0.879 0.886 ");
  EXPECT_EQ(line("table1", 14), "α 1 FedAvg 100 fedavg 1  0.737 0.001 0.922 0.716 0.616 ");
  EXPECT_EQ(line("table1", 44), "α 1 Fed-GraB 100 fedgrab 1  0.766 0.003 0.910 0.698 0.713 ");
  EXPECT_EQ(line("table1", 77), "α 0.5 Fed-GraB 100 fedgrab 0.5  0.761 0.008 0.910 0.698 0.713 ");
  EXPECT_EQ(line("table2", 10), "CIFAR-100-LT Fed-GraB cifar100  fedgrab 0.411 0.002 0.683 0.553 0.221 ");
  EXPECT_EQ(line("table3", 22), "Fed-GraB 100 1 fedgrab 95 ");
  EXPECT_EQ(line("table3", 14), "LDAM-FL 100 1 ldam not reached ");
}

TEST_F(ReproductionTest, OursBesideThePapers) {
  const auto what = find_reproduction("table1");
  std::vector<ShownCell> shown;
  for (const auto& cell : cells_of(what, {1, 2})) shown.push_back({.cell = cell, .directory = {scratch_.path("none")}});
  const auto finish = [&](const std::string& name, double all, int64_t rounds) {
    for (auto& cell : shown)
      if (cell.cell.name == name)
        cell.summary =
            Json{{"rounds", rounds}, {"mean_last_10", {{"all", all}, {"many", 0.9}, {"med", 0.7}, {"few", 0.6}}}};
  };
  finish("fedavg-factor100-alpha1-seed1", 0.74, 500);
  finish("fedavg-factor100-alpha1-seed2", 0.76, 500);
  finish("fedgrab-factor50-alpha0.5-seed1", 0.8, 100);
  finish("focal-factor10-alpha1-seed1", 0.8, 600);
  finish("fedprox-factor10-alpha1-seed1", 0.8, 400);
  finish("fedprox-factor10-alpha1-seed2", 0.8, 500);
  const std::string csv = comparison(what, shown, 500, true).to_csv();
  EXPECT_EQ(row(csv, "α 1,FedAvg,100"),
            "α 1,FedAvg,100,0.750 ± 0.014,0.737 ± 0.001,+0.013,0.900 ± 0.000,0.922,-0.022,0.700 ± 0.000,0.716,-0.016,"
            "0.600 ± 0.000,0.616,-0.016,500,2/2,fedavg-factor100-alpha1");
  EXPECT_NE(row(csv, "α 0.5,Fed-GraB,50").find("0.800,0.806 ± 0.001,-0.006"), std::string::npos);
  EXPECT_NE(row(csv, "α 0.5,Fed-GraB,50").find("100 of 500,1/2"), std::string::npos) << "fewer rounds than the paper's";
  EXPECT_NE(row(csv, "α 1,Focal-FL,10").find("600 of 500,1/2"), std::string::npos) << "more of them";
  EXPECT_NE(row(csv, "α 1,FedProx,10").find("400 to 500 of 500,2/2"), std::string::npos) << "seeds of several lengths";
  EXPECT_EQ(row(csv, "α 1,FedAvg,50"),
            "α 1,FedAvg,50,–,0.792 ± 0.005,–,–,0.888,–,–,0.771,–,–,0.693,–,–,0/2,fedavg-factor50-alpha1");
  for (auto& cell : shown) cell.asked = cell.cell.value("method.name") == "fednova";
  const std::string part = comparison(what, shown, 500, true, true).to_csv();
  EXPECT_EQ(row(part, "α 1,FedAvg,100"), row(csv, "α 1,FedAvg,100")) << "was run";
  EXPECT_EQ(row(part, "α 1,FedNova,100"), row(csv, "α 1,FedNova,100")) << "is asked for";
  EXPECT_EQ(row(part, "α 1,FedAvg,50"), "");
}

TEST_F(ReproductionTest, RoundsUntilFewIsLearnt) {
  const auto what = find_reproduction("table3");
  std::vector<ShownCell> shown;
  for (const auto& cell : cells_of(what, {1})) {
    shown.push_back({.cell = cell, .directory = {scratch_.path("none")}});
    const bool reached = cell.value("method.name") == "fedgrab";
    if (cell.value("method.name") != "creff")
      shown.back().summary = Json{{"rounds", 500}, {"few_reached_0.55", reached ? Json(80) : Json(nullptr)}};
  }
  const std::string csv = comparison(what, shown, 500, true).to_csv();
  EXPECT_EQ(row(csv, "Fed-GraB,100,1"), "Fed-GraB,100,1,80,95,-15,500,1/1,fedgrab-factor100-alpha1");
  EXPECT_EQ(row(csv, "LDAM-FL,100,1"), "LDAM-FL,100,1,not in 500,not reached,–,500,1/1,ldam-factor100-alpha1");
  EXPECT_EQ(row(csv, "CReFF,100,1"), "CReFF,100,1,–,309,–,–,0/1,creff-factor100-alpha1");
}

TEST_F(ReproductionTest, RunsTheChosenCellsAndKeepsWhatIsThere) {
  const auto what = find_reproduction("table1");
  const auto first = reproduce(what, options({"method=fedavg", "longtail.factor=100", "partition.alpha=1"}));
  EXPECT_NE(first.text.find("Not the paper's data"), std::string::npos);
  EXPECT_NE(first.text.find("2 of 500"), std::string::npos);
  const auto written = fs::last_write_time(scratch_.path("out/table1/runs/fedavg-factor100-alpha1-seed1/summary.json"));
  reproduce(what, options({"method=fedavg,fedprox", "longtail.factor=100", "partition.alpha=1"}));
  EXPECT_EQ(fs::last_write_time(scratch_.path("out/table1/runs/fedavg-factor100-alpha1-seed1/summary.json")), written);
  const std::string csv = file("table1/table.csv");
  EXPECT_NE(row(csv, "α 1,FedAvg,100").find(",1/1,"), std::string::npos) << csv;
  EXPECT_NE(row(csv, "α 1,FedProx,100").find(",1/1,"), std::string::npos) << csv;
  EXPECT_NE(row(csv, "α 1,FedNova,100").find(",0/1,"), std::string::npos) << csv;
  EXPECT_NE(file("table1/table.md").find("Fed-GraB at α 0.5"), std::string::npos) << "slips of the paper are said";
  EXPECT_NE(file("table1/curves.csv").find("\nfedprox-factor100-alpha1-seed1,2,0."), std::string::npos);
  EXPECT_NE(file("table1/about.json").find("\"revision\": \"test\""), std::string::npos);
  // Table 3 asks the same runs.
  auto third = options({"method=fedavg", "longtail.factor=100", "partition.alpha=1"});
  reproduce(find_reproduction("table3"), third);
  EXPECT_EQ(fs::last_write_time(scratch_.path("out/table1/runs/fedavg-factor100-alpha1-seed1/summary.json")), written);
  EXPECT_NE(row(file("table3/table.csv"), "FedAvg,100,1").find("2 of 500"), std::string::npos);
}

TEST_F(ReproductionTest, RunsOnOtherDataAreNotShownForThePapers) {
  const auto what = find_reproduction("fig4c");
  reproduce(what, options());
  auto other = options();
  other.flags.emplace_back("train.lr", "0.02");
  const std::string before = file("fig4c/figure.csv") + file("fig4c/about.json");
  expect_error(Fault::usage, [&] { reproduce(what, other); }, {"train.lr", "0.02"});
  EXPECT_EQ(file("fig4c/figure.csv") + file("fig4c/about.json"), before) << "what is refused changes nothing";
  auto elsewhere = options({"prior.source=dpa"});
  elsewhere.flags.emplace_back("data.per_class", "25");
  elsewhere.out = scratch_.path("other");
  reproduce(what, elsewhere);
  elsewhere.cells = {"prior.source=none"};
  elsewhere.flags.back().second = "26";
  const auto result = reproduce(what, elsewhere);
  EXPECT_NE(result.text.find("global prior (DPA)      –"), std::string::npos) << result.text;
}

TEST_F(ReproductionTest, EveryKindOfFigure) {
  for (const std::string name : {"fig1b", "fig2", "fig4a", "fig4b", "fig5a", "fig5b", "fig6a"}) {
    SCOPED_TRACE(name);
    const auto what = find_reproduction(name);
    auto some =
        options(name == "fig6a" ? std::vector<std::string>{"objective.sgb.target=-1,0,1"} : std::vector<std::string>{});
    if (name == "fig2") {
      std::erase_if(some.flags, [](const auto& flag) { return flag.first == "partition.clients"; });
      expect_error(Fault::usage, [&] { reproduce(what, some); }, {"--seeds", "--seed S"});
      some.seeds.clear();
    }
    const auto result = reproduce(what, some);
    EXPECT_TRUE(result.failed.empty());
    EXPECT_NE(result.text.find("The paper: "), std::string::npos);
    if (what.view == View::partition) {
      EXPECT_NE(file("fig2/figure-cifar10-clients40.svg").find("shapes in place of CIFAR-10-LT"), std::string::npos);
      EXPECT_NE(file("fig2/figure-cifar10-clients40.svg").find("40 clients"), std::string::npos);
      EXPECT_NE(result.text.find("Not the paper's data"), std::string::npos) << "though every cell has its own";
      EXPECT_NE(file("fig2/about.json").find("fedgrab reproduce …"), std::string::npos);
      continue;
    }
    const std::string csv = file(name + "/figure.csv");
    for (const auto& [key, label] : what.labels) EXPECT_NE(csv.find(label), std::string::npos) << csv;
    EXPECT_EQ(file(name + "/figure.svg").find("not run"), std::string::npos);
  }
}

TEST_F(ReproductionTest, ADamagedRunIsSaidAndCostsNoOther) {
  const auto what = find_reproduction("table1");
  reproduce(what, options({"method=fedavg,fedprox", "longtail.factor=100", "partition.alpha=1"}));
  const std::string summary = file("table1/runs/fedprox-factor100-alpha1-seed1/summary.json");
  Json rounds = Json::parse(summary), seconds = rounds;
  rounds["rounds"] = 1e89;
  seconds["seconds"] = "long";
  for (const std::string& damage : {std::string("{}"), std::string("nonsense"), rounds.dump(), seconds.dump()}) {
    scratch_.write("out/table1/runs/fedprox-factor100-alpha1-seed1/summary.json", damage);
    reproduce(what, options({"method=fedavg", "longtail.factor=100", "partition.alpha=1"}));
    EXPECT_NE(row(file("table1/table.csv"), "α 1,FedProx,100").find(",damaged,"), std::string::npos);
    EXPECT_NE(row(file("table1/table.csv"), "α 1,FedAvg,100").find(",1/1,"), std::string::npos);
  }
  scratch_.write("out/table1/runs/fedprox-factor100-alpha1-seed1/metrics.jsonl", "nonsense\n");
  EXPECT_EQ(estimate(what, options({"method=fedavg", "longtail.factor=100", "partition.alpha=1"})).done, 1);
  scratch_.write("out/table1/runs/fedprox-factor100-alpha1-seed1/summary.json", summary);
  reproduce(what, options({"method=fedavg", "longtail.factor=100", "partition.alpha=1"}));
  EXPECT_NE(row(file("table1/table.csv"), "α 1,FedProx,100").find(",damaged,"), std::string::npos);
  scratch_.write("out/table1/about.json", "nonsense");
  expect_error(Fault::data,
               [&] {
                 reproduce(what, options({"method=fedavg", "longtail.factor=100", "partition.alpha=1"}));
               },
               {"about.json", "delete it"});
}

TEST_F(ReproductionTest, DataThatIsMissingIsSaid) {
  const auto what = find_reproduction("table2");
  auto some = options({"method=fedavg"});
  std::erase_if(some.flags, [](const auto& flag) { return flag.first == "data.name"; });
  some.flags.emplace_back("data.path", scratch_.path("nothing"));
  expect_error(Fault::data, [&] { reproduce(what, some); }, {"table2", "nothing", "CIFAR-100"});
  EXPECT_FALSE(fs::exists(scratch_.path("out")));
  for (const char* name : {"a", "b"})
    for (const char* image : {"1", "2", "3", "4", "5"})
      scratch_.write(std::string("nothing/imagenet-lt/") + name + "/" + image + ".ppm", "P6\n2 2\n255\nabcdefghijkl");
  const auto result = reproduce(what, some);
  EXPECT_NE(row(file("table2/table.csv"), "CIFAR-100-LT,FedAvg").find("needs data"), std::string::npos);
  EXPECT_NE(row(file("table2/table.csv"), "ImageNet-LT,FedAvg").find("2 of 500"), std::string::npos);
  EXPECT_NE(row(file("table2/table.csv"), "ImageNet-LT,CReFF").find("–,0.263 ± 0.000,–"), std::string::npos);
  EXPECT_NE(result.text.find("Needs data: "), std::string::npos);
}

TEST_F(ReproductionTest, Rubbish) {
  const auto refused = [&](const std::vector<std::string>& cells, const std::vector<std::string>& says) {
    expect_error(
        Fault::usage, [&] { reproduce(find_reproduction("table1"), options(cells)); }, says);
    EXPECT_FALSE(fs::exists(scratch_.path("out")));
  };
  refused({"fedavg"}, {"--cells fedavg", "key=value"});
  refused({"=fedavg"}, {"--cells =fedavg", "key=value"});
  refused({"method="}, {"--cells method=", "key=value"});
  refused({"method=fedavgg"}, {"fedavgg", "one of", "fedavg"});
  refused({"train.lr=0.1"}, {"train.lr", "not varied"});
  refused({"trian.lr=0.1"}, {"trian.lr", "train.lr"});
  refused({"method=central", "partition.alpha=1"}, {"no cell"});
  expect_error(Fault::usage, [] { find_reproduction("tabel1"); }, {"tabel1", "did you mean table1?"});
  auto against = options();
  against.flags.emplace_back("longtail.factor", "20");
  expect_error(Fault::usage, [&] { reproduce(find_reproduction("table1"), against); }, {"longtail.factor", "--cells"});
  against.flags.back() = {"method", "fedavg"};
  expect_error(Fault::usage, [&] { reproduce(find_reproduction("fig4b"), against); }, {"method.name", "--cells"});
  against.flags.back() = {"train.seed", "3"};
  expect_error(Fault::usage, [&] { reproduce(find_reproduction("fig4b"), against); }, {"train.seed", "--seeds"});
}

TEST_F(ReproductionTest, HowLongItTakes) {
  const auto what = find_reproduction("fig4c");
  const auto before = estimate(what, options());
  EXPECT_EQ(before.runs, 3);
  EXPECT_EQ(before.done, 0);
  EXPECT_GT(before.seconds, 0);
  EXPECT_EQ(before.measure, "timed");
  reproduce(what, options());
  const auto after = estimate(what, options());
  EXPECT_EQ(after.done, 3);
  EXPECT_EQ(after.seconds, 0);
  EXPECT_EQ(after.measure, "by 3 runs");
  auto larger = options();
  larger.flags.emplace_back("data.per_class", "21");
  const auto other = estimate(what, larger);
  EXPECT_EQ(other.done, 0);
  EXPECT_EQ(other.measure, "timed") << "runs with other settings say nothing of these";
}

}  // namespace fedgrab::reproduction_test
