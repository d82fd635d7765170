#include "fedgrab/method/presets.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/data/scratch_folder.h"
#include "tests/method/tiny.h"

namespace fedgrab::presets_test {

TEST(Presets, HaveNamesOfTheirOwnAGroupAndASummaryAndCompose) {
  std::set<std::string> names;
  for (const auto& preset : presets()) {
    SCOPED_TRACE(preset.name);
    EXPECT_TRUE(names.insert(preset.name).second);
    EXPECT_FALSE(preset.group.empty());
    EXPECT_FALSE(preset.summary.empty());
    auto method = compose(preset.name);
    const auto model = method.model(tiny_architecture(16), 3);
    EXPECT_EQ(model->heads.front().name, "fc");
    EXPECT_FALSE(model->heads.front().detached);
  }
}

TEST(Presets, AreFoundByNameOrTheNearestIsNamed) {
  EXPECT_EQ(find_preset("scaffold").name, "scaffold");
  expect_error(Fault::usage, [] { find_preset("fedavgg"); }, {"method.name", "\"fedavgg\"", "did you mean fedavg?"});
  expect_error(Fault::usage, [] { find_preset("nonsense"); }, {"method.name", "--method help"});
}

TEST(Presets, OfCentralTrainingSendNothing) {
  for (const char* name : {"central", "central-eqlv2", "central-ldam", "sgb-cl"}) {
    TinyFederation f(compose(name), 4, 3);
    f.round(1, [](const auto&, const auto&, State& local) { add_to_trained(local, 1); });
    EXPECT_EQ(f.bytes_up, 0) << name;
    EXPECT_EQ(f.method.bytes_down(*f.model), 0) << name;
  }
}

/// Whether any averaging of weights, as in Flower, can take the place of the server's.
TEST(Presets, SendMoreThanWeightsWhereTheirPartsNeedIt) {
  const std::set<std::string> more{"fednova", "fedir", "scaffold", "feddyn", "fedgrab-published", "creff"};
  for (const auto& preset : presets())
    EXPECT_EQ(compose(preset.name).weights_only(), !more.contains(preset.name)) << preset.name;
}

TEST(Presets, OfFedGrabDifferWhereTheirSourcesDo) {
  const auto heads = [](const char* name) { return compose(name).model(tiny_architecture(4), 3)->heads; };
  ASSERT_EQ(heads("fedgrab").size(), 2U);  // beside an auxiliary head
  EXPECT_EQ(heads("fedgrab")[0].role, Role::frozen);
  ASSERT_EQ(heads("fedgrab-published").size(), 1U);
  EXPECT_EQ(heads("fedgrab-published")[0].role, Role::frozen);
  ASSERT_EQ(heads("fedgrab-paper").size(), 1U);  // the prior is read from the classifier
  EXPECT_EQ(heads("fedgrab-paper")[0].role, Role::shared);
}

}  // namespace fedgrab::presets_test
