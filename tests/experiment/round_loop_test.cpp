#include "fedgrab/experiment/round_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "fedgrab/core/file.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/privacy_accountant.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/new_run_directory.h"
#include "fedgrab/experiment/participation.h"
#include "fedgrab/record/last_evaluation.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::round_loop_test {

namespace fs = std::filesystem;

/// A run of a second: some 150 images, four clients.
Config small_config(const Assignments& changes = {}) {
  Assignments flags{{"data.per_class", "40"},   {"data.test_per_class", "5"},   {"longtail.factor", "10"},
                    {"partition.clients", "4"}, {"train.rounds", "4"},          {"train.local_epochs", "1"},
                    {"train.batch", "16"},      {"engine.workers", "1"},        {"checkpoint.every", "2"},
                    {"checkpoint.keep", "9"},   {"record.tensorboard", "false"}};
  flags.insert(flags.end(), changes.begin(), changes.end());
  return resolve_config(std::nullopt, flags);
}

/// Without what may differ from run to run: keys that say so.
Json without_times(const Json& json) {
  if (!json.is_object()) return json;
  Json kept = Json::object();
  for (const auto& [key, value] : json.items()) {
    const auto has = [&name = key](const char* word) { return name.find(word) != std::string::npos; };
    if (!has("seconds") && !has("time") && !has("memory")) kept[key] = without_times(value);
  }
  return kept;
}

std::string metrics_text(const RunDirectory& directory) {
  std::string text;
  std::istringstream lines(read_text(directory.metrics()));
  for (std::string line; std::getline(lines, line);) text += without_times(Json::parse(line)).dump() + "\n";
  return text;
}

/// The files whose bytes a repetition must reproduce.
void expect_same_run(const RunDirectory& a, const RunDirectory& b) {
  EXPECT_EQ(metrics_text(a), metrics_text(b));
  EXPECT_EQ(read_text(a.partition()), read_text(b.partition()));
  EXPECT_EQ(without_times(a.read_summary()).dump(), without_times(b.read_summary()).dump());
  EXPECT_EQ(read_text(evaluation_file(a)), read_text(evaluation_file(b)));
  EXPECT_EQ(read_text(samples_file(a)), read_text(samples_file(b)));
  EXPECT_TRUE(torch::equal(load_model(a.root).state.flat, load_model(b.root).state.flat));
}

class RoundLoopTest : public testing::Test {
 protected:
  RunDirectory directory(const std::string& name) const { return {scratch_.path(name)}; }
  Summary run(const std::string& name, const Config& config, bool resume = false) const {
    return run_experiment(config, {.directory = directory(name), .resume = resume, .quiet = true});
  }

  ScratchFolder scratch_;
};

class Methods : public RoundLoopTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Methods, testing::Values("fedavg", "fedgrab", "fedgrab+", "central"));

TEST_P(Methods, TheSameCommandGivesTheSameBytes) {
  const Config config = small_config({{"method", GetParam()}});
  run("a", config);
  run("b", config);
  expect_same_run(directory("a"), directory("b"));
  EXPECT_EQ(read_bytes(directory("a").model()), read_bytes(directory("b").model()));
}

TEST_P(Methods, TheNumberOfWorkersLeavesNoTrace) {
  run("one", small_config({{"method", GetParam()}}));
  run("two", small_config({{"method", GetParam()}, {"engine.workers", "2"}}));
  expect_same_run(directory("one"), directory("two"));
}

TEST_P(Methods, ARunCutBackToAnEarlierCheckpointGoesOnExactly) {
  const Config config = small_config({{"method", GetParam()}});
  run("whole", config);
  // As a kill leaves it while round 4 is being written: the log is ahead of the newest checkpoint, its last line torn.
  fs::copy(directory("whole").root, directory("cut").root, fs::copy_options::recursive);
  for (const auto& file : {directory("cut").checkpoint(4), directory("cut").summary(), directory("cut").model()})
    ASSERT_TRUE(fs::remove(file)) << file;
  const std::string log = read_text(directory("whole").metrics());
  fs::resize_file(directory("cut").metrics(), log.size() - 7);
  run("cut", resumed_config(directory("cut").config(), std::nullopt, {}), true);
  expect_same_run(directory("whole"), directory("cut"));
  EXPECT_EQ(read_bytes(directory("whole").model()), read_bytes(directory("cut").model()));
  EXPECT_EQ(read_bytes(directory("whole").checkpoint(4)), read_bytes(directory("cut").checkpoint(4)));
}

TEST_F(RoundLoopTest, AKillBeforeTheFirstCheckpointStartsOver) {
  const Config config = small_config();
  run("whole", config);
  fs::copy(directory("whole").root, directory("cut").root, fs::copy_options::recursive);
  for (const auto& file : {directory("cut").checkpoints(), directory("cut").summary(), directory("cut").model()})
    ASSERT_GT(fs::remove_all(file), 0U);
  run("cut", config, true);
  expect_same_run(directory("whole"), directory("cut"));
}

TEST_F(RoundLoopTest, MoreRoundsContinueAFinishedRun) {
  const Assignments constant{{"train.schedule", "constant"}};
  run("whole", small_config(constant));
  run("longer", small_config({{"train.schedule", "constant"}, {"train.rounds", "3"}}));
  EXPECT_EQ(directory("longer").read_metrics().size(), 3U);
  run("longer", resumed_config(directory("longer").config(), std::nullopt, {{"train.rounds", "4"}}), true);
  expect_same_run(directory("whole"), directory("longer"));
}

TEST_F(RoundLoopTest, ResumingAFinishedRunChangesNothing) {
  run("whole", small_config());
  const std::string log = read_text(directory("whole").metrics());
  const auto model = read_bytes(directory("whole").model());
  run("whole", small_config(), true);
  EXPECT_EQ(read_text(directory("whole").metrics()), log);
  EXPECT_EQ(read_bytes(directory("whole").model()), model);
  EXPECT_TRUE(directory("whole").finished());
}

TEST_F(RoundLoopTest, ALogShorterThanTheCheckpointIsRefused) {
  run("run", small_config());
  fs::resize_file(directory("run").metrics(), 0);
  expect_error(Fault::checkpoint, [&] { run("run", small_config(), true); }, {"metrics.jsonl", "round 4"});
}

TEST_F(RoundLoopTest, BehindABrokenCheckpointTheOlderOneIsNamed) {
  const Config config = small_config({{"method", "fedavg"}});
  run("whole", config);
  run("run", config);
  scratch_.write("run/checkpoints/round-000004.safetensors", "broken");
  expect_error(Fault::checkpoint, [&] { run("run", config, true); },
               {"round-000004.safetensors", "remove that file to continue from round 2"});
  EXPECT_EQ(directory("run").read_metrics().size(), 4U);
  fs::remove(directory("run").checkpoint(4));
  run("run", config, true);
  expect_same_run(directory("whole"), directory("run"));
}

/// Every file below a folder and what it holds.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().string()] = read_text(entry.path());
  return files;
}

TEST_F(RoundLoopTest, ARefusedSecondResumeLeavesTheFirstAsItIs) {
  const Config config = small_config({{"method", "scaffold"}, {"engine.client_memory", "0"}});
  run("run", config);
  scratch_.write("run/clients/3-9.safetensors", "the first run works on it");
  const auto before = contents(directory("run").root);
  const LineLog first(directory("run").metrics());
  expect_error(Fault::usage, [&] { run("run", config, true); }, {"metrics.jsonl", "another process"});
  EXPECT_EQ(contents(directory("run").root), before);
}

Assignments private_settings(const Assignments& more = {}) {
  Assignments all{{"method", "fedavg"},
                  {"server.weights", "uniform"},
                  {"server.clip", "0.5"},
                  {"server.noise", "2"},
                  {"train.participation", "0.5"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(RoundLoopTest, APrivateRunRecordsWhatItSpends) {
  const Summary summary = run("run", small_config(private_settings({{"server.delta", "0.01"}})));
  const PrivacyAccountant accountant({.noise = 2, .clients = 4, .per_round = 2});
  const auto records = directory("run").read_metrics();
  ASSERT_EQ(records.size(), 4U);
  for (const auto& record : records) EXPECT_DOUBLE_EQ(record.epsilon.value(), accountant.epsilon(record.round, 0.01));
  EXPECT_LT(records[0].epsilon.value(), records[3].epsilon.value());
  EXPECT_EQ(summary.privacy->epsilon, records[3].epsilon);
  const Json privacy = directory("run").read_summary()["privacy"];
  EXPECT_EQ(privacy["per_round"], 2);
  EXPECT_EQ(privacy["neighbours"], "replace one client");
}

TEST_F(RoundLoopTest, ClippingWithoutNoiseSaysThatEpsilonIsInfinite) {
  const Summary summary = run("run", small_config(private_settings({{"server.noise", "0"}})));
  EXPECT_TRUE(std::isinf(summary.privacy->epsilon));
  EXPECT_TRUE(directory("run").read_summary()["privacy"]["epsilon"].is_null());
  run("plain", small_config({{"method", "fedavg"}}));
  EXPECT_FALSE(directory("plain").read_summary().contains("privacy"));
}

TEST_F(RoundLoopTest, NoiseDependsNeitherOnWorkersNorOnAnInterruption) {
  run("one", small_config(private_settings()));
  run("two", small_config(private_settings({{"engine.workers", "2"}})));
  expect_same_run(directory("one"), directory("two"));
  fs::remove(directory("two").checkpoint(4));
  run("two", resumed_config(directory("two").config(), std::nullopt, {}), true);
  expect_same_run(directory("one"), directory("two"));
}

class EditedSettings : public RoundLoopTest {
 protected:
  /// As `fedgrab run --resume` does after someone has changed config.toml.
  void resume_with(const std::string& key, const std::string& value) const {
    Config edited{full_schema()};
    edited.load_toml_text(read_text(directory("run").config()), "config.toml");
    edited.set_text(key, value);
    write_atomically(directory("run").config(), edited.to_toml());
    run("run", resumed_config(directory("run").config(), std::nullopt, {}), true);
  }
};

TEST_F(EditedSettings, OtherThanThoseOfTheCheckpointAreRefused) {
  run("run", small_config({{"method", "fedavg"}}));
  const Assignments changes{{"train.lr", "0.5"}, {"train.momentum", "0"}, {"objective.name", "focal"}};
  for (const auto& change : changes) {
    const std::string &key = change.first, &value = change.second;
    SCOPED_TRACE(key);
    const std::string settings = read_text(directory("run").config());
    expect_error(Fault::usage, [&] { resume_with(key, value); }, {key, "round-000004.safetensors", "config.toml"});
    write_atomically(directory("run").config(), settings);
  }
  EXPECT_EQ(directory("run").read_metrics().size(), 4U);
  resume_with("train.rounds", "5");  // as a flag may ask for
  EXPECT_EQ(directory("run").read_metrics().size(), 5U);
  resume_with("data.path", "/moved");  // shapes are read from nowhere
}

TEST_F(EditedSettings, RoundsOnWhichTheScheduleDependsAreRefused) {
  run("run", small_config({{"method", "fedavg"}, {"train.schedule", "cosine"}}));
  expect_error(Fault::usage, [&] { resume_with("train.rounds", "6"); }, {"train.rounds", "round-000004.safetensors"});
}

TEST_F(RoundLoopTest, ALogWithARoundMissingIsRefused) {
  run("run", small_config());
  const std::string log = read_text(directory("run").metrics());
  write_atomically(directory("run").metrics(), log.substr(log.find('\n') + 1) + "{\"round\":5}\n");
  expect_error(Fault::data, [&] { run("run", small_config(), true); }, {"metrics.jsonl", "line 1 is of round 2"});
}

TEST_F(RoundLoopTest, DataThatChangedUnderARunIsRefused) {
  run("run", small_config());
  expect_error(Fault::data,
               [&] {
                 run("run", small_config({{"data.per_class", "39"}}), true);
               },
               {"partition.json", "data"});
}

TEST_F(RoundLoopTest, LearnsSomething) {
  const Summary summary = run("run", small_config({{"method", "fedavg"},
                                                   {"longtail.kind", "none"},
                                                   {"train.rounds", "8"},
                                                   {"train.local_epochs", "2"},
                                                   {"eval.every", "8"}}));
  const auto records = directory("run").read_metrics();
  EXPECT_LT(records.back().loss, 0.9 * records.front().loss);
  EXPECT_GT(summary.last.all, 0.15);  // ten classes: chance is 0.1
}

TEST_F(RoundLoopTest, RecordsWhatTheRoundsDid) {
  const Summary summary = run("run", small_config({{"method", "fedgrab"}, {"record.client_accuracy_every", "2"}}));
  const auto records = directory("run").read_metrics();
  ASSERT_EQ(records.size(), 4U);
  int64_t samples = 0;
  for (const int64_t count : summary.class_counts) samples += count;
  for (const auto& r : records) {
    EXPECT_EQ(r.clients, 4);
    EXPECT_EQ(r.samples, samples);
    EXPECT_EQ(r.accuracy->per_class.size(), 10U);
    EXPECT_EQ(r.diagnostics.at("delta").mean.size(), 10U);
    EXPECT_EQ(r.prior->p.size(), 10U);
    EXPECT_EQ(r.client_accuracy.size(), r.round % 2 == 0 ? 4U : 0U);
    EXPECT_EQ(r.personal.has_value(), r.round % 2 == 0);
    EXPECT_EQ(r.bytes_up, r.bytes_down);
    EXPECT_GT(r.bytes_up, 0);
    EXPECT_FALSE(r.validation);
  }
  int64_t tested = 0;
  for (const auto& row : summary.confusion)
    for (const int64_t count : row) tested += count;
  EXPECT_EQ(tested, 50);
  EXPECT_EQ(summary.class_names.size(), 10U);
  EXPECT_GT(summary.peak_memory_bytes, 1 << 20);
  EXPECT_FALSE(summary.best_by_validation);
  EXPECT_FALSE(fs::exists(directory("run").root / "best.safetensors"));
}

TEST_F(RoundLoopTest, ShowsTestImagesOfTheLastEvaluation) {
  const Summary summary = run("run", small_config({{"record.samples", "3"}}));
  const auto shown = read_last_evaluation(directory("run"));
  EXPECT_EQ(shown.round, 4);
  EXPECT_EQ(shown.confusion, summary.confusion);
  ASSERT_EQ(shown.samples.size(), 3U);
  for (const auto& sample : shown.samples) {
    EXPECT_NE(sample.truth, sample.answer) << "there are mistakes enough";
    EXPECT_GT(shown.confusion.at(static_cast<size_t>(sample.truth)).at(static_cast<size_t>(sample.answer)), 0);
  }
  EXPECT_GE(shown.samples.front().confidence, shown.samples.back().confidence);
  run("none", small_config({{"record.samples", "0"}}));
  EXPECT_FALSE(fs::exists(samples_file(directory("none"))));
  EXPECT_TRUE(fs::exists(evaluation_file(directory("none"))));
}

TEST_F(RoundLoopTest, EvaluatesEveryFewRoundsAndTheLast) {
  run("run", small_config({{"eval.every", "3"}}));
  std::vector<int64_t> evaluated;
  for (const auto& r : directory("run").read_metrics())
    if (r.accuracy) evaluated.push_back(r.round);
  EXPECT_EQ(evaluated, (std::vector<int64_t>{3, 4}));
}

TEST_F(RoundLoopTest, KeepsTheCheckpointsItWasAskedFor) {
  run("some", small_config({{"checkpoint.every", "1"}, {"checkpoint.keep", "2"}}));
  EXPECT_EQ(directory("some").checkpoint_rounds(), (std::vector<int64_t>{3, 4}));
  run("last", small_config({{"checkpoint.every", "0"}}));
  EXPECT_EQ(directory("last").checkpoint_rounds(), (std::vector<int64_t>{4}));
}

TEST_F(RoundLoopTest, WritesTensorBoardEventsUnlessToldNotTo) {
  const auto events = [&](const std::string& name) {
    size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(directory(name).root))
      files += entry.path().filename().string().find("tfevents") == std::string::npos ? 0 : 1;
    return files;
  };
  run("with", small_config({{"record.tensorboard", "true"}, {"train.rounds", "1"}}));
  run("without", small_config({{"train.rounds", "1"}}));
  EXPECT_EQ(events("with"), 1U);
  EXPECT_EQ(events("without"), 0U);
}

TEST_F(RoundLoopTest, RecordsThePriorOfTheHeadForAnyMethodWhenAsked) {
  run("run", small_config({{"method", "fedavg"}, {"record.prior", "true"}}));
  for (const auto& r : directory("run").read_metrics()) {
    ASSERT_TRUE(r.prior);
    ASSERT_EQ(r.prior->p.size(), 10U);
    EXPECT_NEAR(std::accumulate(r.prior->p.begin(), r.prior->p.end(), 0.0), 1, 1e-5);
    EXPECT_GT(r.prior->l2, 0);
    EXPECT_GE(r.prior->tail_hit, 0);
  }
  run("plain", small_config({{"method", "fedavg"}}));
  EXPECT_FALSE(directory("plain").read_metrics().front().prior);
  // where the run has an estimate of its own, that is the one
  run("own", small_config({{"method", "fedgrab"}, {"prior.source", "fixed"}, {"record.prior", "true"}}));
  EXPECT_NEAR(directory("own").read_metrics().back().prior->p.back(), 0.1, 1e-6);
}

// --- Validation ---

TEST_F(RoundLoopTest, TheValidationSplitChoosesTheBestModel) {
  const Summary summary = run("run", small_config({{"data.validation", "0.25"}, {"method", "fedavg"}}));
  EXPECT_TRUE(summary.best_by_validation);
  int64_t best = 0;
  double merit = -1;
  for (const auto& r : directory("run").read_metrics())
    if (const double value = value_of(*r.validation, Measure::balanced_accuracy).value(); value > merit) {
      merit = value;
      best = r.round;
    }
  EXPECT_EQ(summary.best_round, best);
  const auto model = load_model(directory("run").root / "best.safetensors");
  EXPECT_EQ(model.card.round, best);
  EXPECT_EQ(directory("run").read_summary()["best"]["chosen_on"], "validation");
}

TEST_F(RoundLoopTest, MeasuresOfTheLastAndTheBestModelAreInTheSummary) {
  // With a fitted classifier of its own for each model, and a learning rate so large that the last round is not the
  // best.
  const Summary summary = run("run", small_config({{"data.validation", "0.25"},
                                                   {"train.schedule", "constant"},
                                                   {"train.lr", "0.5"},
                                                   {"train.rounds", "6"},
                                                   {"eval.resamples", "20"}}));
  const auto records = directory("run").read_metrics();
  const auto record_of = [&](int64_t round) { return *records.at(static_cast<size_t>(round - 1)).accuracy; };
  ASSERT_NE(summary.best_round, summary.rounds);
  for (const auto& [report, accuracy] : {std::pair(summary.last_measures, record_of(summary.rounds)),
                                         std::pair(summary.best_measures, record_of(summary.best_round))}) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->values.size(), all_names<Measure>().size());
    for (const auto& [measure, value] : report->values) {
      EXPECT_DOUBLE_EQ(value.value, value_of(accuracy, measure).value()) << name_of(measure);
      EXPECT_TRUE(value.interval) << name_of(measure);
    }
    EXPECT_EQ(report->auroc.size(), summary.class_names.size());
  }
  const Json json = directory("run").read_summary()["measures"];
  EXPECT_EQ(json["last"].dump(), to_json(*summary.last_measures).dump());
  EXPECT_EQ(json["best"].dump(), to_json(*summary.best_measures).dump());
}

TEST_F(RoundLoopTest, EndsWithAWarningWhereItNamesTheLargestClassAlone) {
  testing::internal::CaptureStderr();
  run("none", small_config({{"train.lr", "1e-9"}, {"train.rounds", "1"}}));
  const std::string warned = testing::internal::GetCapturedStderr();
  EXPECT_NE(warned.find("does not exceed"), std::string::npos) << warned;
  EXPECT_EQ(std::count(warned.begin(), warned.end(), '\n'), 1) << warned;
}

TEST_F(RoundLoopTest, TheBestModelIsChosenByTheCriterion) {
  const Summary summary = run("run", small_config({{"data.validation", "0.25"}, {"eval.criterion", "macro-f1"}}));
  double merit = -1;
  int64_t best = 0;
  for (const auto& r : directory("run").read_metrics())
    if (r.validation->f1 > merit) {
      merit = r.validation->f1;
      best = r.round;
    }
  EXPECT_EQ(summary.best_round, best);
  EXPECT_EQ(load_model(directory("run").root / "best.safetensors").card.round, best);
  expect_error(Fault::usage,
               [&] {
                 run("none", small_config({{"eval.criterion", "few"}, {"data.validation", "0.1"}}));
               },
               {"eval.criterion", "data.validation"});
}

TEST_F(RoundLoopTest, PatienceStopsARunThatGetsNoBetter) {
  const Config config = small_config({{"method", "fedgrab"},
                                      {"data.validation", "0.25"},
                                      {"eval.patience", "2"},
                                      {"train.lr", "0"},
                                      {"train.rounds", "50"}});
  const Summary summary = run("run", config);
  EXPECT_EQ(summary.rounds, 3);  // the first is best, two more are not better
  EXPECT_EQ(summary.best_round, 1);
  run("run", config, true);
  EXPECT_EQ(directory("run").read_metrics().size(), 3U);  // still out of patience
}

TEST_F(RoundLoopTest, PatienceWithoutAValidationSplitIsRefused) {
  expect_error(Fault::usage,
               [&] {
                 run("run", small_config({{"eval.patience", "2"}}));
               },
               {"eval.patience", "data.validation"});
  EXPECT_FALSE(fs::exists(directory("run").root));
}

// --- Participation ---

TEST_F(RoundLoopTest, HalfTheClientsTakePartWhereAsked) {
  const Config config = small_config({{"train.participation", "0.5"}, {"method", "fedgrab"}});
  run("a", config);
  run("b", small_config({{"train.participation", "0.5"}, {"method", "fedgrab"}, {"engine.workers", "2"}}));
  for (const auto& r : directory("a").read_metrics()) EXPECT_EQ(r.clients, 2);
  expect_same_run(directory("a"), directory("b"));
}

TEST(ChooseClients, TakesTheAskedShareOfThem) {
  EXPECT_EQ(choose_clients(10, 0.5, 1, 1).size(), 5U);
  EXPECT_EQ(choose_clients(10, 1, 1, 1), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(choose_clients(10, 1e-6, 1, 1).size(), 1U);  // at least one
  EXPECT_EQ(choose_clients(3, 0.5, 1, 1).size(), 2U);
}

TEST(ChooseClients, DependsOnRoundAndSeedAlone) {
  EXPECT_EQ(choose_clients(100, 0.3, 4, 7), choose_clients(100, 0.3, 4, 7));
  EXPECT_NE(choose_clients(100, 0.3, 4, 7), choose_clients(100, 0.3, 5, 7));
  EXPECT_NE(choose_clients(100, 0.3, 4, 7), choose_clients(100, 0.3, 4, 8));
}

TEST(ChooseClients, GivesEveryClientItsTurn) {
  std::vector<int> chosen(10);
  for (int64_t round = 1; round <= 1000; ++round) {
    const auto clients = choose_clients(10, 0.3, round, 1);
    EXPECT_TRUE(std::is_sorted(clients.begin(), clients.end()));
    EXPECT_EQ(std::set<int64_t>(clients.begin(), clients.end()).size(), 3U);
    for (const int64_t client : clients) ++chosen.at(static_cast<size_t>(client));
  }
  for (const int times : chosen) EXPECT_NEAR(times, 300, 60);  // four deviations
}

// --- Directories and interruption ---

TEST_F(RoundLoopTest, AFolderThatHoldsARunIsNotOverwritten) {
  const Settings settings = read_settings(small_config());
  const std::string wanted = directory("run").root.string();
  EXPECT_EQ(new_run_directory(wanted, settings).root, wanted);
  scratch_.write("run/config.toml", "");
  expect_error(Fault::usage, [&] { new_run_directory(wanted, settings); }, {wanted, "--resume", "remove", "--out"});
  scratch_.write("run/metrics.jsonl", "{\"round\":1}\n");
  expect_error(Fault::usage, [&] { new_run_directory(wanted, settings); }, {"holds a run already", "--resume"});
}

TEST_F(RoundLoopTest, AnOutputThatCannotBeWrittenIsNamed) {
  scratch_.write("file", "");
  expect_error(Fault::other, [&] { run("file/run", small_config()); }, {scratch_.path("file/run")});
}

TEST_F(RoundLoopTest, StartsFromTheWeightsOfAFile) {
  run("first", small_config({{"method", "fedavg"}}));
  const auto model = directory("first").model();
  run("second", small_config({{"method", "fedavg"}, {"model.init", model.string()}, {"train.lr", "0"}}));
  const State start = load_model(model).state, end = load_model(directory("second").root).state;
  for (const auto& p : start.model->parameters)  // statistics move at any rate
    if (p.trained()) {
      EXPECT_TRUE(torch::allclose(end.view(p), start.view(p), 1e-5, 1e-9)) << p.name;
    }
}

/// Rounds that are mostly evaluation.
Config endless_config() {
  return small_config({{"data.per_class", "10"},
                       {"data.test_per_class", "100"},
                       {"train.rounds", "100000"},
                       {"train.schedule", "constant"},  // a cosine could not be resumed with other rounds
                       {"checkpoint.every", "0"}});
}

/// Ends the process as `fedgrab run` does when a signal arrives once two rounds are on record. The pace of the second
/// puts it into the evaluation of the third, when clients and server have moved on but nothing is written; wherever it
/// lands, what follows must hold.
[[noreturn]] void run_until_signal(const RunDirectory& directory) {
  catch_interrupts();
  std::thread([&directory] {
    while (directory.read_metrics().size() < 2) std::this_thread::yield();
    const auto pace = directory.read_metrics()[1].phase_seconds;
    const auto moment =
        std::chrono::steady_clock::now() +
        std::chrono::duration<double>(pace.at("train") + pace.at("aggregate") + pace.at("evaluate") / 2);
    while (std::chrono::steady_clock::now() < moment) std::this_thread::yield();
    ::kill(::getpid(), SIGTERM);
  }).detach();
  try {
    run_experiment(endless_config(), {.directory = directory, .quiet = true});
  } catch (const Interrupted&) {
    std::_Exit(130);
  }
  std::_Exit(0);
}

TEST(InterruptionDeathTest, SavesTheFinishedRoundsAndGoesOnExactly) {
  // The signal's flag stays up for good, so the interrupted run has a process of its own, which starts this test anew
  // and learns from the environment which folder is meant.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr const char* folder = "FEDGRAB_TEST_INTERRUPTED_RUN";
  std::optional<ScratchFolder> scratch;
  if (std::getenv(folder) == nullptr) ::setenv(folder, scratch.emplace().path().c_str(), 1);
  const fs::path root = std::getenv(folder);
  const RunDirectory directory{root / "run"}, uninterrupted{root / "whole"};
  EXPECT_EXIT(run_until_signal(directory), testing::ExitedWithCode(130), "");
  ::unsetenv(folder);

  const auto done = static_cast<int64_t>(directory.read_metrics().size());
  ASSERT_EQ(directory.checkpoint_rounds(), std::vector<int64_t>{done});
  EXPECT_FALSE(directory.finished());
  const Config config = resumed_config(directory.config(), std::nullopt, {{"train.rounds", std::to_string(done + 1)}});
  run_experiment(config, {.directory = directory, .resume = true, .quiet = true});
  run_experiment(config, {.directory = uninterrupted, .quiet = true});
  expect_same_run(directory, uninterrupted);
}

}  // namespace fedgrab::round_loop_test
