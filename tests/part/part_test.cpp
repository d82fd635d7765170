#include "fedgrab/part/part.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace fedgrab::part_test {

/// One normalised feature, a shared classifier, an auxiliary head and a head that each client keeps.
std::shared_ptr<const Model> model_of(std::vector<Head> heads) {
  const Layer norm{.kind = LayerKind::batch_norm, .name = "bn1", .in = 1, .out = 1};
  return make_model({"tiny", {1, 1, 1}, {norm, Layer{LayerKind::flatten, "", 0}}, 1}, std::move(heads), 2);
}

/// Names of the parameters that the ranges cover entirely; part of one is a failure.
std::vector<std::string> names_in(const Model& model, const std::vector<Range>& ranges) {
  std::vector<std::string> names;
  for (const auto& p : model.parameters)
    for (const auto& [offset, size] : ranges)
      if (p.offset < offset + size && offset < p.offset + p.size) {
        EXPECT_TRUE(p.offset >= offset && p.offset + p.size <= offset + size) << p.name;
        names.push_back(p.name);
      }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(Ranges, AreWhatIsSharedOptimisedOrAStatistic) {
  const auto model = model_of({Head{},
                               {.name = "probe", .detached = true},
                               {.name = "own", .role = Role::personal, .detached = true},
                               {.name = "fixed", .role = Role::frozen}});
  EXPECT_EQ(names_in(*model, shared_ranges(*model)),
            (Names{"bn1.bias", "bn1.running_mean", "bn1.running_var", "bn1.weight", "fc.bias", "fc.weight",
                   "probe.bias", "probe.weight"}));
  EXPECT_EQ(names_in(*model, optimised_ranges(*model)), (Names{"bn1.bias", "bn1.weight", "fc.bias", "fc.weight"}));
  EXPECT_EQ(names_in(*model, statistics_ranges(*model)), (Names{"bn1.running_mean", "bn1.running_var"}));
  EXPECT_EQ(shared_bytes(*model), (4 + 4 + 4) * 4);
  EXPECT_EQ(optimised_bytes(*model), (2 + 4) * 4);
}

TEST(Ranges, TakeAHeadByItsWholeName) {
  const auto model = model_of({Head{.name = "fc"}, {.name = "f", .detached = true}});
  EXPECT_FALSE(is_auxiliary(*model, model->find("fc.weight")));
  EXPECT_TRUE(is_auxiliary(*model, model->find("f.weight")));
}

TEST(EffectiveSteps, AreTheFactorsOfEachGradientSummed) {
  EXPECT_EQ(effective_steps(7, 0), 7);
  EXPECT_EQ(effective_steps(1, 0.9), 1);
  EXPECT_NEAR(effective_steps(2, 0.5), 2.5, 1e-12);             // 1 + 0.5, and 1
  EXPECT_NEAR(effective_steps(3, 0.9), 2.71 + 1.9 + 1, 1e-12);  // 1 + 0.9 + 0.81, 1 + 0.9, and 1
  EXPECT_EQ(effective_steps(0, 0.9), 0);
}

TEST(FlatIn, IsZeroUntilThereIsOne) {
  const State like = initial_state(model_of({Head{}}), 1);
  TensorMap state;
  EXPECT_TRUE(torch::equal(flat_in(state, "control", like), torch::zeros({like.model->size})));
  state["control"] = torch::ones({like.model->size});
  EXPECT_TRUE(torch::equal(flat_in(state, "control", like), state["control"]));
  EXPECT_FALSE(state.contains("other"));
}

}  // namespace fedgrab::part_test
