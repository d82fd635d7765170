/// A trained model deployed again with another post-hoc classifier.
#include <gtest/gtest.h>

#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/round_loop.h"
#include "fedgrab/part/part.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::deployment_test {

class Deployment : public testing::Test {
 protected:
  RunDirectory run(const std::string& method, const Assignments& changes = {}) const {
    Assignments flags{{"method", method},           {"data.per_class", "20"},
                      {"data.test_per_class", "3"}, {"longtail.factor", "5"},
                      {"partition.clients", "3"},   {"train.rounds", "2"},
                      {"train.local_epochs", "1"},  {"train.batch", "16"},
                      {"engine.workers", "1"},      {"record.tensorboard", "false"}};
    flags.insert(flags.end(), changes.begin(), changes.end());
    const RunDirectory directory{scratch_.path(method + std::to_string(runs_++))};
    run_experiment(resolve_config(std::nullopt, flags), {.directory = directory, .quiet = true});
    return directory;
  }
  /// Of all parameters that both have: a run with an auxiliary head has more.
  static void expect_same(const State& a, const State& b) {
    for (const auto& p : b.model->parameters) EXPECT_TRUE(torch::equal(a.view(p.name), b.view(p))) << p.name;
  }

  ScratchFolder scratch_;
  mutable int runs_ = 0;
};

TEST_F(Deployment, OfFedAvgIsWhatTheOtherPresetDeploys) {
  const auto fedavg = run("fedavg");
  const State plain = load_model(fedavg.root).state;
  const Assignments adjusted{
      {"posthoc.kind", "logit-adjustment"}, {"prior.source", "dpa"}, {"prior.dpa.head", "classifier"}};
  for (const auto& [preset, changes] :
       std::map<std::string, Assignments>{{"tau-norm", {{"posthoc.kind", "tau-norm"}}}, {"dpa-shift", adjusted}}) {
    SCOPED_TRACE(preset);
    const auto expected = load_model(run(preset).root);
    for (const auto& path : {fedavg.root, fedavg.checkpoint(2)}) {
      const auto changed = redeploy(path, changes, nullptr);
      expect_same(changed.state, expected.state);
      EXPECT_FALSE(torch::equal(changed.state.view("fc.weight"), plain.view("fc.weight")) &&
                   torch::equal(changed.state.view("fc.bias"), plain.view("fc.bias")));
      EXPECT_EQ(changed.card.round, 2);
      EXPECT_EQ(read_settings(resolve_config({"card", changed.card.config}, {})).method, "fedavg");
    }
  }
}

TEST_F(Deployment, OfOneWithAPosthocClassifierMayGoWithoutIt) {
  const auto expected = load_model(run("fedavg").root);
  expect_same(redeploy(run("tau-norm").root, {{"posthoc.kind", "none"}}, nullptr).state, expected.state);
  const auto weak = redeploy(run("tau-norm").root, {{"posthoc.tau-norm.tau", "0"}}, nullptr);
  expect_same(weak.state, expected.state);
}

TEST_F(Deployment, ReadsThePriorOfAnAuxiliaryHeadThatWasTrained) {
  const auto fedgrab = run("fedgrab");
  const auto plain = load_model(fedgrab.root).state;
  const auto changed = redeploy(fedgrab.root, {{"posthoc.kind", "logit-adjustment"}}, nullptr).state;
  EXPECT_TRUE(torch::equal(changed.view("fc.weight"), plain.view("fc.weight")));
  EXPECT_FALSE(torch::equal(changed.view("fc.bias"), plain.view("fc.bias")));
}

TEST_F(Deployment, TakesTheClassCountsOfTheDataWhereItNeedsThem) {
  const auto fedavg = run("fedavg");
  const Assignments counted{{"posthoc.kind", "logit-adjustment"}, {"prior.source", "counts"}};
  expect_error(Fault::usage, [&] { redeploy(fedavg.root, counted, nullptr); }, {"posthoc.kind", "data"});
  const Preparation prepared = prepare(read_settings(resolve_config(fedavg.config(), {})));
  const auto plain = load_model(fedavg.root).state;
  const auto share = to_tensor(prepared.counts) / to_tensor(prepared.counts).sum();
  EXPECT_TRUE(torch::allclose(redeploy(fedavg.root, counted, &prepared).state.view("fc.bias"),
                              plain.view("fc.bias") - share.log(), 1e-5, 1e-6));
}

TEST_F(Deployment, WhatWasDecidedInTrainingIsRefused) {
  const auto fedavg = run("fedavg");
  for (const auto& change : Assignments{{"method", "tau-norm"},
                                        {"method.name", "tau-norm"},
                                        {"objective.name", "ldam"},
                                        {"server.optimizer", "adam"},
                                        {"head.init", "etf"}})
    expect_error(Fault::usage, [&] { redeploy(fedavg.root, {change}, nullptr); },
                 {change.first, "after training", "posthoc"});
  // What has to be trained with the model.
  for (const auto& [kind, source] : Assignments{
           {"creff", "none"}, {"aligned", "none"}, {"logit-adjustment", "dpa"}, {"logit-adjustment", "bias-probe"}}) {
    SCOPED_TRACE(kind);
    expect_error(Fault::usage,
                 [&] {
                   redeploy(fedavg.root, {{"posthoc.kind", kind}, {"prior.source", source}}, nullptr);
                 },
                 {"posthoc.kind", kind, source, "trained without"});
  }
  expect_error(Fault::usage,
               [&] {
                 redeploy(fedavg.root, {{"posthoc.kind", "logit-adjustment"}}, nullptr);
               },
               {"prior.source"});
  expect_error(Fault::usage,
               [&] {
                 redeploy(fedavg.root, {{"posthoc.kind", "tau-nrom"}}, nullptr);
               },
               {"posthoc.kind", "tau-norm"});
}

TEST_F(Deployment, AModelFileHoldsTheDeployedModelAlone) {
  const auto fedavg = run("fedavg");
  expect_error(Fault::checkpoint,
               [&] {
                 redeploy(fedavg.model(), {{"posthoc.kind", "tau-norm"}}, nullptr);
               },
               {fedavg.model().string(), "deployed model alone"});
}

}  // namespace fedgrab::deployment_test
