/// Where losses take the sizes of the classes from: the client's counts or an estimate of the class prior.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/method/tiny.h"

namespace fedgrab::class_sizes_test {

const std::vector<int64_t> own_counts{6, 3, 0, 1};  // of one client, which lacks a class
const std::vector<int64_t> all_counts{50, 20, 8, 2};

/// Two features and four classes, with the heads of the composition.
TinyFederation federation(const std::string& preset, const Values& settings,
                          const std::vector<int64_t>& counts = own_counts) {
  TinyFederation f(compose(preset, settings), 2, 4, {{.counts = counts}});
  if (f.method.needs().global_counts) f.method.learn_counts(all_counts);
  return f;
}

/// Class sizes by DPA where training has left weight norms of 5, 1, 2 and 0.5.
TinyFederation with_norms(Values settings, const std::vector<int64_t>& counts = own_counts,
                          const std::string& preset = "fedavg") {
  settings.insert(settings.end(), {{"prior.source", "dpa"}, {"objective.class_sizes", "prior"}});
  TinyFederation f = federation(preset, settings, counts);
  f.global.view("probe.weight").copy_(torch::tensor({{3.0F, 4.0F}, {0.0F, 1.0F}, {2.0F, 0.0F}, {0.3F, 0.4F}}));
  return f;
}

// ---- local

TEST(LocalClassSizes, AreTheClientsOwnCounts) {
  auto f = federation("fedavg", {});
  EXPECT_FALSE(f.method.needs().global_counts);
  const auto problem = f.configure();
  EXPECT_FALSE(problem.class_sizes.defined());  // the engine gives the client's own
  EXPECT_FALSE(problem.heads.front().prior.defined());
  EXPECT_EQ(f.model->heads.size(), 1U);
}

TEST(LocalClassSizes, StayWhereAPriorIsForTheGateOrForAfterTraining) {
  for (const char* preset : {"fedgrab", "dpa-shift"})
    EXPECT_FALSE(federation(preset, {}).configure().class_sizes.defined()) << preset;
}

// ---- counts

class CountedClassSizes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, CountedClassSizes,
                         testing::Values("fedavg", "fedprox", "fednova", "fedir", "scaffold", "feddyn", "moon",
                                         "fedavgm", "fedadam", "creff", "tau-norm", "dpa-shift", "fedetf", "fedloge"));

TEST_P(CountedClassSizes, AreTheCountsOfAllClientsTogether) {
  auto f = federation(GetParam(), {{"prior.source", "counts"}, {"objective.class_sizes", "prior"}});
  EXPECT_TRUE(f.method.needs().global_counts);
  const auto sizes = f.configure().class_sizes;
  ASSERT_TRUE(sizes.defined());
  EXPECT_TRUE(torch::equal(sizes, torch::tensor({50.0F, 20.0F, 8.0F, 2.0F})));
}

// ---- dpa

TEST(DpaClassSizes, ComeFromAnAuxiliaryHeadOnDetachedFeatures) {
  auto f = federation("fedavg", {{"prior.source", "dpa"}, {"objective.class_sizes", "prior"}});
  EXPECT_FALSE(f.method.needs().global_counts);  // that is the point of it
  const auto& heads = f.model->heads;
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_EQ(heads[1].name, "probe");
  EXPECT_EQ(heads[1].role, Role::shared);
  EXPECT_TRUE(heads[1].detached);
  const auto problem = f.configure();
  ASSERT_EQ(problem.heads.size(), 2U);
  // Cross-entropy, whatever the loss of the classifier.
  const LogitBatch batch{.logits = torch::tensor({{0.5F, -0.5F, 0.0F, 1.0F}}), .labels = torch::tensor({int64_t{1}})};
  TensorMap state;
  EXPECT_TRUE(torch::equal((*problem.heads[1].objective)(batch, state).gradient, softmax_loss(batch).gradient));
}

TEST(DpaClassSizes, AreOrderedAsTheNormsAndNoneIsBelowOne) {
  for (const char* scale : {"span", "share"}) {
    const auto sizes = with_norms({{"prior.scale", scale}}).configure().class_sizes;
    ASSERT_TRUE(sizes.defined());
    const auto order = sizes.argsort(-1, true);
    EXPECT_TRUE(torch::equal(order, torch::tensor({0, 2, 1, 3}, torch::kLong))) << scale;
    EXPECT_GE(sizes.min().item<double>(), 1 - 1e-6) << scale;
  }
}

TEST(DpaClassSizes, SpreadTheClientsOwnSamplesWhereTheySuffice) {
  // Norms 5, 1, 2, 0.5 as shares of 8.5, of 170 samples: 100, 20, 40, 10.
  auto f = with_norms({{"prior.scale", "share"}}, {170, 0, 0, 0});
  EXPECT_TRUE(torch::allclose(f.configure().class_sizes, torch::tensor({100.0F, 20.0F, 40.0F, 10.0F}), 1e-4));
}

TEST(DpaClassSizes, KeepTheirRatiosWhereTheSamplesAreTooFew) {
  const auto sizes = with_norms({{"prior.scale", "span"}, {"prior.span_min", "0.01"}}).configure().class_sizes;
  EXPECT_NEAR(sizes.min().item<double>(), 1, 1e-4);  // ten samples for a span of a hundred
  EXPECT_NEAR(sizes.max().item<double>(), 100, 1e-2);
}

TEST(DpaClassSizes, ShiftTheLogitsOfBalancedSoftmax) {
  auto f = with_norms({{"prior.scale", "share"}}, own_counts, "logit-adjustment");
  const auto problem = f.configure();
  const LogitBatch batch{
      .logits = torch::zeros({1, 4}), .labels = torch::tensor({int64_t{3}}), .counts = problem.class_sizes};
  TensorMap state;
  const auto gradient = (*problem.heads[0].objective)(batch, state).gradient;
  EXPECT_TRUE(torch::allclose(gradient * 8.5, torch::tensor({{5.0F, 1.0F, 2.0F, 0.5F - 8.5F}}), 1e-4, 1e-5));
}

// ---- bias probe

TEST(BiasProbeClassSizes, AreSharesOfTheClientsSamplesWithoutAScale) {
  TinyFederation f(compose("balanced-softmax", {{"prior.source", "bias-probe"}, {"objective.class_sizes", "prior"}}), 2,
                   3, {{.counts = {600, 300, 100}}});
  EXPECT_FALSE(f.configure().class_sizes.defined());  // before round 1 there is no estimate
  f.round(1, [](const auto&, const auto&, State&) {});
  EXPECT_TRUE(torch::allclose(f.configure(2).class_sizes, torch::tensor({600.0F, 300.0F, 100.0F}), 0.01));
}

// ---- classes without samples

TEST(AClassWithoutSamples, BreaksNoPreset) {
  const std::vector<int64_t> counts{6, 3, 0, 0}, known{50, 20, 8, 0};  // the client lacks two, everybody lacks one
  for (const auto& preset : presets()) {
    SCOPED_TRACE(preset.name);
    TinyFederation f(compose(preset.name), 2, 4, {{.counts = counts}});
    if (f.method.needs().global_counts) f.method.learn_counts(known);
    const auto context = f.begin();
    const auto client = f.client(context);
    const auto problem = f.method.configure(client);
    const auto finite = [](const torch::Tensor& t) { return !t.defined() || t.isfinite().all().item<bool>(); };
    EXPECT_TRUE(finite(problem.class_weights) && finite(problem.class_sizes));
    LogitBatch batch{.logits = torch::tensor({{0.5F, -0.5F, 0.2F, 1.0F}, {0.1F, 0.3F, -0.2F, 0.0F}}),
                     .labels = torch::tensor({0, 1}, torch::kLong)};
    batch.counts = problem.class_sizes.defined() ? problem.class_sizes : to_tensor(counts);
    if (problem.class_weights.defined()) batch.weights = problem.class_weights.index_select(0, batch.labels);
    TensorMap state;
    for (const auto& head : problem.heads)
      for (uint32_t step = 0; step < 2; ++step) {  // the second one sees what was kept
        batch.prior = head.prior;
        batch.randoms = {Random(1, Purpose::gate, 0, 1, step)};
        const auto [loss, gradient] = (*head.objective)(batch, state);
        EXPECT_TRUE(finite(loss) && finite(gradient));
      }
    for (const auto& [name, kept] : state) EXPECT_TRUE(finite(kept)) << name;
    EXPECT_TRUE(finite(f.method.personalise(client, f.global).flat));
    EXPECT_TRUE(finite(f.method.deploy(f.global, f.server).flat));
  }
}

}  // namespace fedgrab::class_sizes_test
