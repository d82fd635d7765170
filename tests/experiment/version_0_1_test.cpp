/// Configurations of version 0.1 under today's names. The files in version-0.1/ are config.toml of runs that version
/// 0.1 made, with every key of every method.
#include <gtest/gtest.h>

#include "fedgrab/core/file.h"
#include "fedgrab/experiment/settings.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::version_0_1_test {

const std::string records = FEDGRAB_TEST_DATA "/experiment/version-0.1/";

/// The flags those runs were made with.
Assignments as_run(const std::string& method, const Assignments& more = {}) {
  Assignments flags{{"method", method},
                    {"train.rounds", "1"},
                    {"partition.clients", "4"},
                    {"data.per_class", "30"},
                    {"train.batch", "16"},
                    {"data.test_per_class", "10"},
                    {"record.tensorboard", "false"},
                    {"engine.workers", "1"},
                    {"eval.criterion", "all"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

void expect_same(const Config& actual, const Config& expected) {
  for (const auto& parameter : expected.schema().all())
    EXPECT_EQ(actual.get(parameter.key), expected.get(parameter.key)) << parameter.key;
}

/// What resolving it says on standard error.
std::string warnings_of(const Assignments& flags) {
  testing::internal::CaptureStderr();
  resolve_config(std::nullopt, flags);
  return testing::internal::GetCapturedStderr();
}

TEST(OldRecord, ResolvesToTheSameRun) {
  expect_same(resolve_config(records + "fedavg.toml", {}), resolve_config(std::nullopt, as_run("fedavg")));
  expect_same(resolve_config(records + "fedgrab.toml", {}), resolve_config(std::nullopt, as_run("fedgrab")));
  expect_same(resolve_config(records + "fedavgm.toml", {}),
              resolve_config(std::nullopt, as_run("fedavgm", {{"server.beta1", "0.7"}, {"server.lr", "0.5"}})));
}

TEST(OldRecord, OfAnyMethodIsThatMethodAndNoOther) {
  const ScratchFolder scratch;
  std::string record = read_text(records + "fedavg.toml");
  const auto with = [&](const Assignments& changes) {
    std::string changed = record;
    for (const auto& [from, to] : changes) {
      const auto at = changed.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      changed.replace(at, from.size(), to);
    }
    return resolve_config(scratch.write("config.toml", changed), {});
  };
  const auto named = [](const char* method) { return std::pair<std::string, std::string>("\"fedavg\"", method); };
  expect_same(with({named("\"scaffold\"")}), resolve_config(std::nullopt, as_run("scaffold")));
  expect_same(with({named("\"feddyn\"")}), resolve_config(std::nullopt, as_run("feddyn")));
  expect_same(with({named("\"central\""), {"name = \"auto\"", "name = \"ldam\""}}),
              resolve_config(std::nullopt, as_run("central", {{"objective.name", "ldam"}})));
  expect_same(with({named("\"logit-adjustment\""),
                    {"name = \"auto\"", "name = \"balanced-softmax\""},
                    {"source = \"local\"", "source = \"dpa\""}}),
              resolve_config(std::nullopt, as_run("logit-adjustment")));
  expect_same(
      with({{"source = \"local\"", "source = \"truth\""}}),
      resolve_config(std::nullopt, as_run("fedavg", {{"prior.source", "counts"}, {"objective.class_sizes", "prior"}})));
  expect_same(
      with({named("\"fedgrab\""), {"prior = \"probe\"", "prior = \"local\""}}),
      resolve_config(std::nullopt, as_run("fedgrab", {{"prior.source", "none"}, {"objective.sgb.gate", "local"}})));
  expect_same(with({named("\"fedgrab\""), {"head = \"frozen\"", "head = \"trained\""}}),
              resolve_config(std::nullopt, as_run("fedgrab", {{"head.frozen", "false"}, {"head.init", "random"}})));
}

TEST(OldRecord, IsReadWithoutAWarning) {
  testing::internal::CaptureStderr();
  resolve_config(records + "fedgrab.toml", {});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(OldParameter, GoesByItsNewName) {
  const auto resolve = [](const Assignments& flags) { return resolve_config(std::nullopt, flags); };
  struct Moved {
    std::string method, key, value;
    Assignments now;
  };
  const std::vector<Moved> moved{
      {"fedprox", "method.fedprox.mu", "0.5", {{"client.prox.mu", "0.5"}}},
      {"fedavgm", "method.fedavgm.beta", "0.5", {{"server.beta1", "0.5"}}},
      {"fedyogi", "method.fedyogi.lr", "0.5", {{"server.lr", "0.5"}}},
      {"tau-norm", "method.tau-norm.tau", "0.5", {{"posthoc.tau-norm.tau", "0.5"}}},
      {"creff", "method.creff.features", "7", {{"posthoc.creff.features", "7"}}},
      {"fedloge", "method.fedloge.aligned", "2", {{"posthoc.aligned.norm", "2"}}},
      {"fedgrab", "method.fedgrab.probe_keep", "0.9", {{"prior.dpa.decay", "0.9"}}},
      {"fedgrab", "method.fedgrab.prior", "none", {{"prior.source", "none"}, {"objective.sgb.gate", "off"}}},
      {"fedgrab", "method.fedgrab.shuffled_weights", "true", {{"server.weights", "shuffled"}}},
      {"fedgrab-paper", "method.fedgrab.head", "frozen", {{"head.frozen", "true"}, {"head.init", "etf"}}},
      {"fedgrab-published", "method.fedgrab.head", "frozen", {{"head.frozen", "true"}, {"head.init", "etf"}}},
      {"fedgrab", "objective.sgb.hold", "false", {{"objective.sgb.conditional_integration", "false"}}},
      {"balanced-softmax", "prior.source", "truth", {{"prior.source", "counts"}, {"objective.class_sizes", "prior"}}}};
  for (const auto& one : moved) {
    SCOPED_TRACE(one.key);
    Assignments today{{"method", one.method}};
    today.insert(today.end(), one.now.begin(), one.now.end());
    expect_same(resolve({{"method", one.method}, {one.key, one.value}}), resolve(today));
    const auto warning = warnings_of({{"method", one.method}, {one.key, one.value}});
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
    for (const auto& [key, value] : one.now) EXPECT_NE(warning.find(key + "=" + value), std::string::npos) << warning;
  }
}

TEST(OldParameter, OfAnotherMethodHasNoEffectAndSaysSo) {
  expect_same(resolve_config(std::nullopt, {{"method", "fedavg"}, {"method.fedprox.mu", "0.5"}}),
              resolve_config(std::nullopt, {{"method", "fedavg"}}));
  const auto warning = warnings_of({{"method", "fedavg"}, {"method.fedprox.mu", "0.5"}, {"method.fedavgm.lr", "0.5"}});
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
  for (const auto* part : {"method.fedprox.mu", "method.fedavgm.lr", "no effect with --method fedavg"})
    EXPECT_NE(warning.find(part), std::string::npos) << warning;
}

TEST(OldParameter, ThatWasRemovedSaysSo) {
  const auto warning = warnings_of({{"method", "fedgrab"}, {"method.fedgrab.shift", "0.7"}});
  EXPECT_NE(warning.find("method.fedgrab.shift was removed"), std::string::npos) << warning;
  expect_same(resolve_config(std::nullopt, {{"method", "fedgrab"}, {"method.fedgrab.shift", "0.7"}}),
              resolve_config(std::nullopt, {{"method", "fedgrab"}}));
}

}  // namespace fedgrab::version_0_1_test
