/// Where losses take the sizes of the classes from: the client's counts, DPA's reading of a probe, or the truth.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fedgrab/core/error.h"
#include "tests/method/tiny.h"

namespace fedgrab::prior_source_test {

Config config_with(const std::string& source, const std::string& scale = "span", double span_min = 0.1) {
  Schema schema;
  declare_methods(schema);
  Config config(schema);
  config.set_text("prior.source", source);
  config.set_text("prior.scale", scale);
  config.set("prior.span_min", span_min);
  return config;
}

/// Two features and four classes, with the heads the method asks for.
State state_of(const Method& method) { return initial_state(tiny_model(method.heads(), 2, 4), 1); }

const std::vector<int64_t> own_counts{6, 3, 0, 1};  // of one client, which lacks a class
const std::vector<int64_t> all_counts{50, 20, 8, 2};

ClientRule rule_of(const Method& method, const State& global) {
  TensorMap memory;
  return method.client_rule({.share = 1, .global = global, .counts = own_counts, .memory = memory});
}

/// The probe of a model as training might leave it: norms 5, 1, 2 and 0.5.
State with_probe(const Method& method) {
  const State global = state_of(method);
  global.view("probe.weight").copy_(torch::tensor({{3.0F, 4.0F}, {0.0F, 1.0F}, {2.0F, 0.0F}, {0.3F, 0.4F}}));
  return global;
}

// ---- local

TEST(PriorSource, LocalLeavesTheSizesToTheClientsCounts) {
  const auto method = find_method("fedavg").make(config_with("local"));
  EXPECT_FALSE(method->wants_counts());
  const auto rule = rule_of(*method, state_of(*method));
  EXPECT_FALSE(rule.class_sizes.defined());
  EXPECT_FALSE(rule.heads.front().prior.defined());
  EXPECT_EQ(method->heads().size(), 1U);
}

// ---- truth

class TruePrior : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, TruePrior,
                         testing::Values("fedavg", "fedprox", "fednova", "fedir", "scaffold", "feddyn", "moon",
                                         "fedavgm", "fedadam", "creff", "tau-norm", "dpa-shift", "fedetf", "fedloge"));

TEST_P(TruePrior, GivesTheCountsOfAllClientsTogether) {
  const auto method = find_method(GetParam()).make(config_with("truth"));
  EXPECT_TRUE(method->wants_counts());
  method->learn_counts(all_counts);
  const auto sizes = rule_of(*method, state_of(*method)).class_sizes;
  ASSERT_TRUE(sizes.defined());
  EXPECT_TRUE(torch::equal(sizes, torch::tensor({50.0F, 20.0F, 8.0F, 2.0F})));
}

// ---- dpa

TEST(DpaPrior, ComesFromAProbeThatReadsAndSendsNothingBack) {
  const auto method = find_method("fedavg").make(config_with("dpa"));
  EXPECT_FALSE(method->wants_counts());  // that is the point of it
  const auto heads = method->heads();
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_EQ(heads[1].name, "probe");
  EXPECT_EQ(heads[1].role, Role::shared);
  EXPECT_TRUE(heads[1].detached);
  const auto rule = rule_of(*method, state_of(*method));
  ASSERT_EQ(rule.heads.size(), 2U);
  // Plainly trained: cross-entropy, whatever the loss of the classifying head.
  const LogitBatch batch{.logits = torch::tensor({{0.5F, -0.5F, 0.0F, 1.0F}}), .labels = torch::tensor({int64_t{1}})};
  TensorMap memory;
  EXPECT_TRUE(torch::equal((*rule.heads[1].objective)(batch, memory).gradient, softmax_loss(batch).gradient));
}

TEST(DpaPrior, SizesAreOrderedAsTheNormsAndNoneBelowOne) {
  for (const auto* scale : {"span", "share"}) {
    const auto method = find_method("fedavg").make(config_with("dpa", scale));
    const auto sizes = rule_of(*method, with_probe(*method)).class_sizes;
    ASSERT_TRUE(sizes.defined());
    const auto order = sizes.argsort(-1, true);
    EXPECT_TRUE(torch::equal(order, torch::tensor({0, 2, 1, 3}, torch::kLong))) << scale;
    EXPECT_GE(sizes.min().item<double>(), 1 - 1e-6) << scale;
  }
}

TEST(DpaPrior, SpreadsTheClientsOwnSamplesWhereTheySuffice) {
  // Norms 5, 1, 2, 0.5 as shares of 8.5, of 170 samples: 100, 20, 40, 10.
  const auto method = find_method("fedavg").make(config_with("dpa", "share"));
  const State global = with_probe(*method);
  const std::vector<int64_t> counts{170, 0, 0, 0};
  TensorMap memory;
  const auto rule = method->client_rule({.share = 1, .global = global, .counts = counts, .memory = memory});
  EXPECT_TRUE(torch::allclose(rule.class_sizes, torch::tensor({100.0F, 20.0F, 40.0F, 10.0F}), 1e-4));
}

TEST(DpaPrior, KeepsItsRatiosWhereTheSamplesAreTooFew) {
  const auto method = find_method("fedavg").make(config_with("dpa", "span", 0.01));
  const auto sizes = rule_of(*method, with_probe(*method)).class_sizes;  // ten samples for a span of a hundred
  EXPECT_NEAR(sizes.min().item<double>(), 1, 1e-4);
  EXPECT_NEAR(sizes.max().item<double>(), 100, 1e-2);
}

TEST(DpaPrior, ShiftsTheLogitsOfBalancedSoftmax) {
  const auto& entry = find_method("logit-adjustment");
  Config config = config_with("local");
  for (const auto& [key, value] : entry.preset) config.set_text(key, value);
  config.set_text("prior.scale", "share");
  const auto method = entry.make(config);
  const auto rule = rule_of(*method, with_probe(*method));
  const LogitBatch batch{
      .logits = torch::zeros({1, 4}), .labels = torch::tensor({int64_t{3}}), .counts = rule.class_sizes};
  TensorMap memory;
  const auto gradient = (*rule.heads[0].objective)(batch, memory).gradient;
  EXPECT_TRUE(torch::allclose(gradient * 8.5, torch::tensor({{5.0F, 1.0F, 2.0F, 0.5F - 8.5F}}), 1e-4, 1e-5));
}

// ---- classes without samples

/// What presets set beside the methods' own parameters; the engine declares it.
struct Sampling {
  std::string sampling = "shuffled";
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("sampling", sampling, "");
  }
};

TEST(AClassWithoutSamples, BreaksNoRule) {
  const std::vector<int64_t> counts{6, 3, 0, 0}, known{50, 20, 8, 0};  // the client lacks two, everybody lacks one
  for (const auto& entry : methods()) {
    Schema schema;
    declare_methods(schema);
    schema.add<Sampling>("train");
    Config config(schema);
    for (const auto& [key, value] : entry.preset) config.set_text(key, value);
    const auto method = entry.make(config);
    if (method->wants_counts()) method->learn_counts(known);
    const State global = state_of(*method);
    TensorMap memory;
    const ClientView view{.share = 1, .seed = 1, .global = global, .counts = counts, .memory = memory};
    const auto rule = method->client_rule(view);
    const auto finite = [](const torch::Tensor& t) { return !t.defined() || t.isfinite().all().item<bool>(); };
    EXPECT_TRUE(finite(rule.class_weights) && finite(rule.class_sizes)) << entry.name;
    LogitBatch batch{.logits = torch::tensor({{0.5F, -0.5F, 0.2F, 1.0F}, {0.1F, 0.3F, -0.2F, 0.0F}}),
                     .labels = torch::tensor({0, 1}, torch::kLong)};
    batch.counts = rule.class_sizes.defined() ? rule.class_sizes : torch::tensor({6.0F, 3.0F, 0.0F, 0.0F});
    if (rule.class_weights.defined()) batch.weights = rule.class_weights.index_select(0, batch.labels);
    for (const auto& head : rule.heads)
      for (uint32_t step = 0; step < 2 && head.objective != nullptr; ++step) {  // the second one sees what was kept
        batch.prior = head.prior;
        batch.randoms = {Random(1, Purpose::gate, 0, 1, step)};
        const auto [loss, gradient] = (*head.objective)(batch, memory);
        EXPECT_TRUE(finite(loss) && finite(gradient)) << entry.name;
      }
    for (const auto& [name, kept] : memory) EXPECT_TRUE(finite(kept)) << entry.name << " " << name;
    EXPECT_TRUE(finite(method->personalised(view, global).flat)) << entry.name;
  }
}

// ---- combinations

/// Any loss with any method and any source of sizes; where the heads do not go together, a usage error says so.
TEST(AnyLoss, GoesWithAnyMethodOrIsRefused) {
  const std::vector<std::string> linear_only{"creff", "tau-norm", "dpa-shift", "fedetf", "fedloge"};
  for (const auto& entry : methods()) {
    if (!entry.preset.empty() || entry.name == "fedgrab") continue;
    for (const auto& objective : objectives())
      for (const auto* source : {"local", "dpa", "truth"}) {
        SCOPED_TRACE(entry.name + " " + objective.name + " " + source);
        Config config = config_with(source);
        config.set_text("objective.name", objective.name);
        const bool clash = (objective.name == "ldam" || objective.name == "gcl") &&
                           std::find(linear_only.begin(), linear_only.end(), entry.name) != linear_only.end();
        if (clash) {
          EXPECT_THROW(entry.make(config), Error);
          continue;
        }
        const auto method = entry.make(config);
        if (method->wants_counts()) method->learn_counts(all_counts);
        const auto rule = rule_of(*method, state_of(*method));
        EXPECT_EQ(rule.heads.size(), method->heads().size());
        EXPECT_EQ(rule.class_sizes.defined(), std::string(source) != "local");
      }
  }
}

}  // namespace fedgrab::prior_source_test
