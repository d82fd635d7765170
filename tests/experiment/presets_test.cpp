/// Every preset as a run: it resolves, trains a round, is deployed and evaluated.
#include "fedgrab/method/presets.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/round_loop.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::presets_test {

class Presets : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Presets, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& preset : presets()) names.push_back(preset.name);
                           return names;
                         }()),
                         [](const auto& entry) {
                           std::string name = entry.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           std::replace(name.begin(), name.end(), '+', 'p');
                           return name;
                         });

TEST_P(Presets, RunOneRoundAndAreDeployed) {
  const ScratchFolder scratch;
  const RunDirectory directory{scratch.path("run")};
  const Config config = resolve_config(std::nullopt, {{"method", GetParam()},
                                                      {"data.per_class", "10"},
                                                      {"data.test_per_class", "2"},
                                                      {"longtail.factor", "5"},
                                                      {"partition.clients", "3"},
                                                      {"train.rounds", "1"},
                                                      {"train.local_epochs", "1"},
                                                      {"head.steps", "20"},
                                                      {"posthoc.creff.features", "5"},
                                                      {"posthoc.creff.match_steps", "5"},
                                                      {"posthoc.creff.retrain_epochs", "5"},
                                                      {"engine.workers", "1"},
                                                      {"record.tensorboard", "false"}});
  const Summary summary = run_experiment(config, {.directory = directory, .quiet = true});
  EXPECT_EQ(summary.rounds, 1);
  const auto record = directory.read_metrics().front();
  EXPECT_TRUE(std::isfinite(record.loss));
  EXPECT_EQ(record.bytes_up > 0, !GetParam().starts_with("central") && GetParam() != "sgb-cl");
  const LoadedModel deployed = load_model(directory.root);
  EXPECT_TRUE(deployed.state.flat.isfinite().all().item<bool>());
  EXPECT_EQ(read_settings(resolve_config({"card", deployed.card.config}, {})).method, GetParam());
  // The checkpoint is evaluated as the model file is.
  EXPECT_TRUE(torch::equal(load_model(directory.checkpoint(1)).state.flat, deployed.state.flat));
}

}  // namespace fedgrab::presets_test
