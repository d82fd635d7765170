/// A trained model deployed again with another post-hoc classifier.
#include <gtest/gtest.h>

#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/round_loop.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::deployment_test {

using Changes = std::vector<std::string>;

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
  const Changes adjusted{"posthoc.kind=logit-adjustment", "prior.source=dpa", "prior.dpa.head=classifier"};
  for (const auto& [preset, changes] :
       std::map<std::string, Changes>{{"tau-norm", {"posthoc.kind=tau-norm"}}, {"dpa-shift", adjusted}}) {
    SCOPED_TRACE(preset);
    const auto expected = load_model(run(preset).root);
    for (const auto& path : {fedavg.root, fedavg.checkpoint(2)}) {
      const auto changed = load_model(path, changes);
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
  expect_same(load_model(run("tau-norm").root, {"posthoc.kind=none"}).state, expected.state);
  const auto weak = load_model(run("tau-norm").root, {"posthoc.tau-norm.tau=0"});
  expect_same(weak.state, expected.state);
}

TEST_F(Deployment, ReadsThePriorOfAnAuxiliaryHeadThatWasTrained) {
  const auto fedgrab = run("fedgrab");
  const Changes adjusted{"posthoc.kind=logit-adjustment"};
  const auto plain = load_model(fedgrab.root).state, changed = load_model(fedgrab.root, adjusted).state;
  EXPECT_TRUE(torch::equal(changed.view("fc.weight"), plain.view("fc.weight")));
  EXPECT_FALSE(torch::equal(changed.view("fc.bias"), plain.view("fc.bias")));
}

TEST_F(Deployment, WhatWasDecidedInTrainingIsRefused) {
  const auto fedavg = run("fedavg");
  for (const auto* change : {"method=tau-norm", "method.name=tau-norm", "objective.name=ldam", "server.optimizer=adam"})
    expect_error(Fault::usage, [&] { load_model(fedavg.root, {change}); }, {change, "after training", "posthoc"});
  // What has to be trained with the model.
  for (const auto& changes : {Changes{"posthoc.kind=creff"}, Changes{"posthoc.kind=aligned"},
                              Changes{"posthoc.kind=logit-adjustment", "prior.source=dpa"},
                              Changes{"posthoc.kind=logit-adjustment", "prior.source=bias-probe"},
                              Changes{"posthoc.kind=logit-adjustment", "prior.source=counts"}}) {
    SCOPED_TRACE(changes.back());
    expect_error(Fault::usage, [&] { load_model(fedavg.root, changes); },
                 {changes.back().substr(0, changes.back().find('=')), "trained"});
  }
  expect_error(Fault::usage, [&] { load_model(fedavg.root, {"posthoc.kind=logit-adjustment"}); }, {"prior.source"});
  expect_error(Fault::usage, [&] { load_model(fedavg.root, {"posthoc.kind=tau-nrom"}); }, {"posthoc.kind", "tau-norm"});
}

TEST_F(Deployment, AModelFileHoldsTheDeployedModelAlone) {
  const auto fedavg = run("fedavg");
  expect_error(Fault::checkpoint, [&] { load_model(fedavg.model(), {"posthoc.kind=tau-norm"}); },
               {fedavg.model().string(), "deployed model alone"});
}

}  // namespace fedgrab::deployment_test
