#include "fedgrab/objective/balancer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "fedgrab/core/file.h"
#include "fedgrab/model/safetensors.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::balancer_test {

using nlohmann::json;

torch::Tensor classes_of(const std::vector<bool>& values) {
  auto tensor = torch::empty({static_cast<int64_t>(values.size())}, torch::kBool);
  for (size_t j = 0; j < values.size(); ++j) tensor[static_cast<int64_t>(j)] = static_cast<bool>(values[j]);
  return tensor;
}

torch::Tensor doubles(const std::vector<double>& values) { return torch::tensor(values, torch::kDouble); }

/// Logits and labels of one step, long-tailed: class c is as frequent as 1/(c + 1).
struct Batch {
  torch::Tensor logits, labels;
};
Batch draw_batch(int64_t batch, int64_t classes, uint32_t step, uint32_t stream = 0) {
  Random random(3, Purpose::noise, stream, step);
  Batch drawn{torch::empty({batch, classes}), torch::empty({batch}, torch::kLong)};
  for (int64_t i = 0; i < drawn.logits.numel(); ++i)
    drawn.logits.data_ptr<float>()[i] = static_cast<float>(random.normal());
  for (int64_t i = 0; i < batch; ++i) {
    const double rank = std::pow(static_cast<double>(classes) + 1, random.uniform());
    drawn.labels.data_ptr<int64_t>()[i] = std::min(static_cast<int64_t>(rank) - 1, classes - 1);
  }
  return drawn;
}

/// The largest |ours − theirs| in units of what is allowed: relative · |theirs| + absolute.
double excess(const torch::Tensor& ours, const torch::Tensor& theirs, double relative, double absolute) {
  const auto reference = theirs.to(torch::kDouble);
  return ((ours.to(torch::kDouble) - reference).abs() / (reference.abs() * relative + absolute)).max().item<double>();
}

// ---- the published implementation

torch::Tensor tensor_of(const json& values) {
  if (!values.front().is_array()) return doubles(values.get<std::vector<double>>());
  std::vector<torch::Tensor> rows;
  for (const auto& row : values) rows.push_back(tensor_of(row));
  return torch::stack(rows);
}

/// Traces of the published implementation; FEDGRAB_GOLDEN names another file of the same form.
std::vector<json> golden_traces() {
  const char* other = std::getenv("FEDGRAB_GOLDEN");
  const std::string path = other != nullptr ? other : std::string(FEDGRAB_TEST_DATA) + "/objective/sgb-reference.json";
  return json::parse(read_text(path)).get<std::vector<json>>();
}

BalancerParams golden_params(const json& golden) {
  BalancerParams params{.clamp = 0, .conditional_integration = false};  // as the published code
  params.form = enum_named<BaseLoss>(golden.at("objective").get<std::string>()).value();
  params.kp = golden.at("kp");
  params.ki = golden.at("ki");
  params.kd = golden.at("kd");
  params.gamma = golden.at("gamma");
  params.delta = golden.at("delta");
  params.zeta = golden.at("zeta");
  params.target = golden.at("target");
  return params;
}

/// Follows every trace; with `feed`, each step starts from the recorded collectors of the step before. Weights and
/// gradients may be off by `tolerance`, relative: they span ten orders of magnitude. The absolute part is what float32
/// leaves of σ − 1 near a certain answer, times γ.
void follow_golden(bool feed, double tolerance) {
  const auto traces = golden_traces();
  ASSERT_FALSE(traces.empty());
  for (const auto& golden : traces) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    ASSERT_EQ(golden.at("trace").size(), golden.at("steps").get<size_t>());
    const auto params = golden_params(golden);
    Balancer balancer(golden.at("classes"), params);
    for (size_t t = 0; t < golden.at("trace").size(); ++t) {
      const json& step = golden.at("trace")[t];
      if (feed && t > 0) {
        balancer.state().positive.copy_(tensor_of(golden.at("trace")[t - 1].at("cum_pos")));
        balancer.state().negative.copy_(tensor_of(golden.at("trace")[t - 1].at("cum_neg")));
      }
      const auto labels = torch::tensor(step.at("labels").get<std::vector<int64_t>>());
      const auto [loss, gradient] = balancer.step(tensor_of(step.at("logits")).to(torch::kFloat), labels,
                                                  classes_of(step.at("exempt").get<std::vector<bool>>()));
      // recorded before the gate, also for exempt classes
      const auto& output = balancer.state().output;
      ASSERT_LE(excess(phi(params, output), tensor_of(step.at("beta_pos")), tolerance, 1e-6), 1) << "step " << t;
      ASSERT_LE(excess(phi(params, -output), tensor_of(step.at("beta_neg")), tolerance, 1e-6), 1) << "step " << t;
      ASSERT_LE(excess(gradient, tensor_of(step.at("grad")), tolerance, 1e-6), 1) << "step " << t;
      ASSERT_LE(excess(balancer.state().positive, tensor_of(step.at("cum_pos")), 1e-5, 1e-6), 1) << "step " << t;
      ASSERT_LE(excess(balancer.state().negative, tensor_of(step.at("cum_neg")), 1e-5, 1e-6), 1) << "step " << t;
      ASSERT_NEAR(loss.item<double>(), step.at("loss"), 1e-6 * std::abs(step.at("loss").get<double>())) << "step " << t;
    }
  }
}

TEST(BalancerGolden, FollowsThePublishedTracesClosedLoop) { follow_golden(false, 5e-4); }
TEST(BalancerGolden, FollowsThePublishedTracesFromRecordedCollectors) { follow_golden(true, 2e-5); }

// ---- the same loop written out in double, class by class

struct Reference {
  BalancerParams params;
  std::vector<double> positive, negative, error, error_sum;

  Reference(size_t classes, BalancerParams p)
      : params(std::move(p)), positive(classes), negative(classes), error(classes), error_sum(classes) {}

  double phi_of(double x) const { return params.gamma / (1 + params.delta * std::exp(-params.zeta * x)); }

  torch::Tensor step(const torch::Tensor& plain, const torch::Tensor& labels, const std::vector<bool>& exempt) {
    auto balanced = plain.to(torch::kDouble).clone();
    for (size_t j = 0; j < positive.size(); ++j) {
      if (exempt[j] && params.conditional_integration) continue;
      const double e = params.target - (positive[j] - negative[j]);
      error_sum[j] += e;
      const double u = params.kp * e + params.ki * error_sum[j] + params.kd * (e - error[j]);
      error[j] = e;
      for (int64_t i = 0; i < plain.size(0); ++i) {
        double& g = balanced.data_ptr<double>()[i * plain.size(1) + static_cast<int64_t>(j)];
        const bool is_label = labels[i].item<int64_t>() == static_cast<int64_t>(j);
        if (exempt[j]) continue;
        g *= phi_of(is_label ? u : -u);
        (is_label ? positive[j] : negative[j]) += std::abs(g);
      }
    }
    return balanced;
  }
};

class BalancerSize : public testing::TestWithParam<std::tuple<int64_t, BaseLoss, bool>> {};
INSTANTIATE_TEST_SUITE_P(Classes, BalancerSize,
                         testing::Combine(testing::Values(1, 100, 1000),
                                          testing::Values(BaseLoss::sigmoid, BaseLoss::softmax), testing::Bool()));

TEST_P(BalancerSize, FollowsTheLoopWrittenOutInDouble) {
  const auto [classes, form, conditional] = GetParam();
  const BalancerParams params{.form = form, .conditional_integration = conditional};
  Balancer balancer(classes, params);
  Reference reference(static_cast<size_t>(classes), params);
  Random gate(9, Purpose::gate);
  for (uint32_t t = 0; t < 12; ++t) {
    const auto [logits, labels] = draw_batch(4, classes, t);
    std::vector<bool> exempt;
    for (int64_t j = 0; j < classes; ++j) exempt.push_back(gate.uniform() < 0.3F);
    const LogitBatch plain{.logits = logits.to(torch::kDouble), .labels = labels};
    const auto expected = reference.step(
        form == BaseLoss::softmax ? softmax_loss(plain).gradient : sigmoid_loss(plain).gradient, labels, exempt);
    const auto gradient = balancer.step(logits, labels, classes_of(exempt)).gradient;
    ASSERT_EQ(gradient.scalar_type(), torch::kFloat);
    ASSERT_LE(excess(gradient, expected, 5e-4, 1e-6), 1) << "step " << t;
    ASSERT_LE(excess(balancer.state().positive, doubles(reference.positive), 1e-5, 1e-6), 1) << "step " << t;
    ASSERT_LE(excess(balancer.state().negative, doubles(reference.negative), 1e-5, 1e-6), 1) << "step " << t;
  }
}

// ---- properties

TEST(Phi, IsOneAtZeroAndStaysWithinItsBounds) {
  for (const double delta : {9.0, 1.0, 48.0, 0.5}) {  // φ(0) = γ / (1 + δ)
    const BalancerParams params{.gamma = 1 + delta, .delta = delta};
    EXPECT_EQ(phi(params, torch::zeros({1}, torch::kDouble)).to(torch::kFloat).item<float>(), 1.0F) << delta;
  }
  const BalancerParams params;
  const auto values = phi(params, doubles({-1e6, -100, -1, 1, 100, 1e6}));
  EXPECT_NEAR(values[2].item<double>(), 10 / (1 + 9 * std::exp(0.5)), 1e-12);
  EXPECT_NEAR(values[3].item<double>(), 10 / (1 + 9 * std::exp(-0.5)), 1e-12);
  EXPECT_GT(values[1].item<double>(), 0);
  EXPECT_GE(values.min().item<double>(), 0);
  EXPECT_LE(values.max().item<double>(), 10);
  // without a slope it is γ everywhere, also where the exponential overflows
  const BalancerParams flat{.gamma = 1, .delta = 0};
  EXPECT_TRUE((phi(flat, doubles({-1e6, 0, 1e6})) == 1).all().item<bool>());
}

TEST(Balancer, WeighsByTheStateBeforeTheStep) {
  Balancer balancer(2);
  const auto logits = torch::zeros({1, 2});
  const auto label = torch::zeros({1}, torch::kLong);
  // nothing collected yet: the plain gradient, σ(0) − 1 and σ(0)
  EXPECT_TRUE(torch::allclose(balancer.step(logits, label).gradient, torch::tensor({{-0.5F, 0.5F}})));
  EXPECT_TRUE(torch::allclose(balancer.state().positive, doubles({0.5, 0})));
  EXPECT_TRUE(torch::allclose(balancer.state().negative, doubles({0, 0.5})));
  // then e = ∓0.5 and u = (10 + 0.01 + 0.1) e: too much pulled up is held, too much pushed down likewise
  const double beta = 10 / (1 + 9 * std::exp(0.5 * 10.11 * 0.5));
  const auto second = balancer.step(logits, label).gradient;
  EXPECT_NEAR(second[0][0].item<double>(), -0.5 * beta, 1e-6);
  EXPECT_NEAR(second[0][1].item<double>(), 0.5 * beta, 1e-6);
  EXPECT_NEAR(balancer.state().output[0].item<double>(), -10.11 * 0.5, 1e-6);
  EXPECT_NEAR(balancer.state().difference()[1].item<double>(), -0.5 - 0.5 * beta, 1e-6);
}

TEST(Balancer, ReportsThePlainLoss) {
  Balancer balancer(10);
  for (uint32_t t = 0; t < 5; ++t) {
    const auto [logits, labels] = draw_batch(4, 10, t);
    EXPECT_EQ(balancer.step(logits, labels).loss.item<float>(),
              sigmoid_loss({.logits = logits, .labels = labels}).loss.item<float>());
  }
}

/// The same batch over and over, with twice as many samples of class 0 as of 1, four times as many as of 2.
BalancerState feed_constant_gradients(const BalancerParams& params, int steps) {
  const auto labels = torch::tensor({0, 0, 0, 0, 1, 1, 2}, torch::kLong);
  const auto logits = torch::full({7, 3}, -1.0F);
  Balancer balancer(3, params);
  for (int t = 0; t < steps; ++t) balancer.step(logits, labels);
  return balancer.state();
}

// Proportional gain 1: at the default of 10 a gradient this large makes the loop ring around the target (next test).
TEST(Balancer, DrivesTheDifferenceOfConstantGradientsToTheTarget) {
  for (const double target : {0.0, 0.75, 1.0, -2.0, 0.5}) {
    const auto state = feed_constant_gradients({.kp = 1, .ki = 0.02, .target = target}, 2000);
    for (int64_t j = 0; j < 3; ++j) EXPECT_NEAR(state.difference()[j].item<double>(), target, 1e-3);
    // the rarer the class, the more its positive gradient weighs
    EXPECT_LT(state.output[0].item<double>(), state.output[1].item<double>());
    EXPECT_LT(state.output[1].item<double>(), state.output[2].item<double>());
  }
  const auto without = feed_constant_gradients({.kp = 0, .ki = 0, .kd = 0}, 2000);
  EXPECT_GT(without.difference().abs().min().item<double>(), 10);
}

TEST(Balancer, HoldsTheDifferenceNearTheTargetWithItsDefaults) {
  EXPECT_LT(feed_constant_gradients({}, 2000).difference().abs().max().item<double>(), 1);
  EXPECT_LT((feed_constant_gradients({.target = 5}, 2000).difference() - 5).abs().max().item<double>(), 1);
}

TEST(Balancer, ExemptClassHasWeightOneAndUnchangedCollectors) {
  Balancer balancer(4);
  const auto no_one = torch::Tensor();
  for (uint32_t t = 0; t < 3; ++t) {
    const auto [logits, labels] = draw_batch(8, 4, t);
    balancer.step(logits, labels, no_one);
  }
  const auto positive = balancer.state().positive.clone(), negative = balancer.state().negative.clone();
  const auto error_sum = balancer.state().error_sum.clone();
  const auto [logits, labels] = draw_batch(8, 4, 3);
  const auto plain = sigmoid_loss({.logits = logits, .labels = labels}).gradient;
  const auto gradient = balancer.step(logits, labels, classes_of({true, false, true, false})).gradient;
  for (const int64_t j : {0, 2}) {
    EXPECT_TRUE(torch::equal(gradient.select(1, j), plain.select(1, j))) << j;
    EXPECT_EQ(balancer.state().positive[j].item<double>(), positive[j].item<double>()) << j;
    EXPECT_EQ(balancer.state().negative[j].item<double>(), negative[j].item<double>()) << j;
  }
  for (const int64_t j : {1, 3}) {
    EXPECT_FALSE(torch::equal(gradient.select(1, j), plain.select(1, j))) << j;
    EXPECT_GT(balancer.state().negative[j].item<double>(), negative[j].item<double>()) << j;
  }
  // the controller of an exempt class rests, the others have seen the step
  const auto error = negative - positive;
  for (const int64_t j : {0, 2}) EXPECT_EQ(balancer.state().error_sum[j].item<double>(), error_sum[j].item<double>());
  for (const int64_t j : {1, 3}) {
    EXPECT_EQ(balancer.state().error[j].item<double>(), error[j].item<double>());
    EXPECT_NEAR(balancer.state().error_sum[j].item<double>(), (error_sum + error)[j].item<double>(), 1e-12);
  }
}

/// u of a class that collected a difference of 0.5, was exempt for so many steps and then was not for one.
double output_after_exemption(bool conditional_integration, int exempt_steps) {
  Balancer balancer(2, {.conditional_integration = conditional_integration});
  balancer.state().positive.fill_(0.5);
  const auto [logits, labels] = draw_batch(8, 2, 0);
  for (int t = 0; t < exempt_steps; ++t) balancer.step(logits, labels, classes_of({true, false}));
  balancer.step(logits, labels, classes_of({false, false}));
  return balancer.state().output[0].item<double>();
}

// A class that DPA takes for the commonest is exempt for hundreds of rounds, and one day another one is.
TEST(Balancer, AnExemptClassDoesNotBreakLooseWhenItNoLongerIs) {
  EXPECT_EQ(output_after_exemption(true, 40000), output_after_exemption(true, 0));
  EXPECT_LT(output_after_exemption(false, 40000), -99);  // as the published code: K_I alone brings it to the clamp
}

TEST(Balancer, WithoutGainsIsThePlainObjectiveBitForBit) {
  for (const auto form : {BaseLoss::sigmoid, BaseLoss::softmax}) {
    Balancer balancer(10, {.form = form, .kp = 0, .ki = 0, .kd = 0});
    for (uint32_t t = 0; t < 50; ++t) {
      const auto [logits, labels] = draw_batch(5, 10, t);
      const LogitBatch batch{.logits = logits, .labels = labels};
      const auto plain = form == BaseLoss::softmax ? softmax_loss(batch) : sigmoid_loss(batch);
      const auto [loss, gradient] = balancer.step(logits, labels);
      ASSERT_TRUE(torch::equal(gradient, plain.gradient)) << name_of(form) << " step " << t;
      ASSERT_TRUE(torch::equal(loss, plain.loss)) << name_of(form) << " step " << t;
    }
  }
}

TEST(Balancer, StopsIntegratingAtTheClampAndTurnsAtOnce) {
  const BalancerParams params{.kp = 0, .ki = 1, .kd = 0, .clamp = 5};
  auto state = BalancerState::zeros({2});
  state.negative.copy_(doubles({1, 0}));  // e = 1 and −1 as long as nothing is collected
  state.positive.copy_(doubles({0, 1}));
  for (int t = 0; t < 1000; ++t) control(params, state);
  EXPECT_TRUE(torch::equal(state.output, doubles({5, -5})));
  EXPECT_TRUE(torch::equal(state.error_sum, doubles({5, -5})));
  state.positive.copy_(doubles({2, 0}));  // the error turns
  state.negative.copy_(doubles({1, 1}));
  control(params, state);
  EXPECT_TRUE(torch::equal(state.output, doubles({4, -4})));
}

TEST(Balancer, WithoutAClampWindsUp) {
  const BalancerParams params{.kp = 0, .ki = 1, .kd = 0, .clamp = 0};
  auto state = BalancerState::zeros({1});
  state.negative.fill_(1);
  for (int t = 0; t < 1000; ++t) control(params, state);
  EXPECT_EQ(state.output.item<double>(), 1000);
}

TEST(Balancer, ClampBoundsTheOutputOfAllThreeTerms) {
  const BalancerParams params;  // K_P 10, clamp 100
  auto state = BalancerState::zeros({3});
  state.negative.copy_(doubles({1e3, 0, 9}));
  state.positive.copy_(doubles({0, 1e3, 0}));
  control(params, state);
  EXPECT_EQ(state.output[0].item<double>(), 100);
  EXPECT_EQ(state.output[1].item<double>(), -100);
  EXPECT_NEAR(state.output[2].item<double>(), 9 * 10.11, 1e-9);
  EXPECT_TRUE(torch::equal(state.error_sum, doubles({0, 0, 9})));
  EXPECT_TRUE(torch::equal(state.error, doubles({1e3, -1e3, 9})));
}

// ---- which classes are balanced

/// The classes that collect something within a few steps.
std::vector<bool> collecting(Balancer& balancer, int64_t classes) {
  for (uint32_t t = 0; t < 3; ++t) {
    const auto [logits, labels] = draw_batch(4, classes, t);
    balancer.step(logits, labels);
  }
  std::vector<bool> found;
  for (int64_t j = 0; j < classes; ++j) found.push_back(balancer.state().negative[j].item<double>() > 0);
  return found;
}

TEST(Mount, ListBalancesTheListedClassesAlone) {
  Balancer balancer(5, {.mount = Mount::list, .mount_classes = {1, 4}});
  EXPECT_EQ(collecting(balancer, 5), (std::vector<bool>{false, true, false, false, true}));
  const auto [logits, labels] = draw_batch(4, 5, 7);
  const auto plain = sigmoid_loss({.logits = logits, .labels = labels}).gradient;
  const auto gradient = balancer.step(logits, labels).gradient;
  for (int64_t j = 0; j < 5; ++j)
    EXPECT_EQ(torch::equal(gradient.select(1, j), plain.select(1, j)), j != 1 && j != 4) << j;
}

TEST(Mount, ListNamesAClassThatDoesNotExist) {
  Balancer balancer(5, {.mount = Mount::list, .mount_classes = {1, 5}});
  expect_error(Fault::usage, [&] { collecting(balancer, 5); }, {"objective.sgb.mount_classes", "no class 5"});
}

/// How often each class was exempt: it then collected nothing.
std::vector<double> exempt_frequency(Balancer& balancer, int64_t classes, int steps) {
  const auto labels = torch::zeros({1}, torch::kLong);
  const auto logits = torch::zeros({1, classes});
  auto exempt = torch::zeros({classes}, torch::kDouble);
  for (int t = 0; t < steps; ++t) {
    balancer.state() = BalancerState::zeros({classes});
    balancer.step(logits, labels);
    exempt += (balancer.state().positive + balancer.state().negative == 0).to(torch::kDouble);
  }
  exempt /= steps;
  return {exempt.data_ptr<double>(), exempt.data_ptr<double>() + classes};
}

TEST(Gate, ExemptsAsOftenAsThePriorSays) {
  constexpr int steps = 10000;
  const std::vector<float> prior{0, 0.1F, 0.5F, 0.9F, 1};
  Balancer balancer(5);
  balancer.set_prior(torch::tensor(prior));
  const auto frequency = exempt_frequency(balancer, 5, steps);
  EXPECT_EQ(frequency.front(), 0);  // never, also when the draw is exactly 0
  EXPECT_EQ(frequency.back(), 1);
  for (size_t j = 1; j < 4; ++j)
    EXPECT_NEAR(frequency[j], prior[j], 5 * std::sqrt(prior[j] * (1 - prior[j]) / steps)) << j;
}

TEST(Gate, IsAFunctionOfTheSeed) {
  const auto run = [](uint64_t seed) {
    Balancer balancer(20, {}, seed);
    balancer.set_prior(torch::full({20}, 0.5F));
    for (uint32_t t = 0; t < 10; ++t) {
      const auto [logits, labels] = draw_batch(4, 20, t);
      balancer.step(logits, labels);
    }
    return balancer.state().negative.clone();
  };
  EXPECT_TRUE(torch::equal(run(1), run(1)));
  EXPECT_FALSE(torch::equal(run(1), run(2)));
}

// ---- long training

// 10⁶ controller steps on constant plain gradients, a different strength of both kinds in each class: absent, always
// present, balanced, vanishing, huge. The collectors advance as balance() advances them, without its tensor of samples.
TEST(Balancer, TakesAMillionStepsWithoutOverflow) {
  const c10::InferenceMode no_graph;
  const auto positive = doubles({0.0, 0.5, 0.25, 0.01, 1e-3, 1e-30, 0.0, 1.0, 1e3, 1e-6});
  const auto negative = doubles({0.5, 0.0, 0.25, 0.50, 0.5, 1e-30, 0.0, 1.0, 1e3, 1.0});
  const BalancerParams params;
  auto state = BalancerState::zeros({10});
  BalancerWeights weights;
  for (int t = 0; t < 1'000'000; ++t) {
    weights = control(params, state);
    state.positive.addcmul_(weights.positive, positive);
    state.negative.addcmul_(weights.negative, negative);
  }
  for (const auto& tensor :
       {state.positive, state.negative, state.error, state.error_sum, state.output, weights.positive, weights.negative})
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << tensor;
  EXPECT_LE(state.output.abs().max().item<double>(), 100);
  // what can be balanced still is
  for (const int64_t j : {2, 3, 4}) EXPECT_LT(std::abs(state.difference()[j].item<double>()), 2) << j;
  EXPECT_GT(state.negative[3].item<double>(), 1e4);
}

// The collectors grow without bound while only their difference steers: at 10⁷ a float32 step is 1, so in single
// precision nothing would be collected any more.
TEST(Balancer, SteersAsFinelyAfterLongTraining) {
  Balancer young(10), old(10);
  old.state().positive.fill_(1e7);
  old.state().negative.fill_(1e7);
  for (uint32_t t = 0; t < 40; ++t) {  // few, since the loop amplifies the last bit of a double as well
    const auto [logits, labels] = draw_batch(4, 10, t);
    const auto fresh = young.step(logits, labels).gradient;
    ASSERT_LE(excess(old.step(logits, labels).gradient, fresh, 1e-4, 1e-6), 1) << "step " << t;
  }
  EXPECT_LE(excess(old.state().difference(), young.state().difference(), 0, 1e-5), 1);
}

TEST(Balancer, StaysFiniteOverExtremeBatches) {
  Balancer balancer(10);
  for (uint32_t t = 0; t < 2000; ++t) {
    const auto [logits, labels] = draw_batch(2, 10, t);
    const auto [loss, gradient] = balancer.step(logits * std::pow(10.0F, static_cast<float>(t % 8) - 3), labels);
    ASSERT_TRUE(gradient.isfinite().all().item<bool>()) << "step " << t;
    ASSERT_TRUE(loss.isfinite().item<bool>()) << "step " << t;
  }
}

// ---- as an objective, with the memory outside

TEST(BalancedObjective, IsTheBalancerWithItsMemoryOutside) {
  const BalancedObjective objective({});
  TensorMap memory;
  Balancer balancer(10);
  for (uint32_t t = 0; t < 10; ++t) {
    const auto [logits, labels] = draw_batch(5, 10, t);
    const auto outside = objective({.logits = logits, .labels = labels}, memory);
    const auto inside = balancer.step(logits, labels);
    ASSERT_TRUE(torch::equal(outside.gradient, inside.gradient)) << "step " << t;
  }
  EXPECT_TRUE(torch::equal(memory.at("sgb.positive"), balancer.state().positive));
  EXPECT_TRUE(torch::equal(memory.at("sgb.error_sum"), balancer.state().error_sum));
  // an empty memory is a new start
  memory.clear();
  const auto [logits, labels] = draw_batch(5, 10, 99);
  const auto again = objective({.logits = logits, .labels = labels}, memory);
  EXPECT_TRUE(torch::equal(again.gradient, sigmoid_loss({.logits = logits, .labels = labels}).gradient));
}

TEST(BalancedObjective, OfSlotsIsThatOfSeparateClients) {
  constexpr int64_t slots = 3;
  const BalancedObjective objective({});
  TensorMap together;
  std::vector<TensorMap> apart(slots);
  const auto prior = torch::rand({slots, 10});
  const auto mask = torch::tensor({{1.0F, 1.0F, 1.0F, 1.0F}, {1.0F, 1.0F, 0.0F, 0.0F}, {1.0F, 1.0F, 1.0F, 0.0F}});
  for (uint32_t t = 0; t < 10; ++t) {
    LogitBatch all{.mask = mask, .prior = prior};
    std::vector<torch::Tensor> logits, labels;
    for (uint32_t slot = 0; slot < slots; ++slot) {
      const auto drawn = draw_batch(4, 10, t, slot);
      logits.push_back(drawn.logits);
      labels.push_back(drawn.labels);
      all.randoms.emplace_back(1, Purpose::gate, slot, 1, t);
    }
    all.logits = torch::stack(logits);
    all.labels = torch::stack(labels);
    const auto gradient = objective(all, together).gradient;
    for (int64_t slot = 0; slot < slots; ++slot) {
      const auto s = static_cast<size_t>(slot);
      const int64_t present = mask[slot].sum().item<int64_t>();
      LogitBatch one{.logits = logits[s].narrow(0, 0, present), .labels = labels[s].narrow(0, 0, present)};
      one.prior = prior[slot];
      one.randoms = {all.randoms[s]};
      const auto alone = objective(one, apart[s]).gradient;
      ASSERT_LE(excess(gradient[slot].narrow(0, 0, present), alone, 5e-4, 1e-6), 1) << "step " << t << ", slot " << s;
    }
  }
  for (size_t s = 0; s < slots; ++s)
    for (const auto& [name, tensor] : apart[s])
      EXPECT_LE(excess(together.at(name)[static_cast<int64_t>(s)], tensor, 1e-4, 1e-5), 1) << name << ", slot " << s;
}

TEST(BalancedObjective, LeavesTheMemoryOfAnEmptySlotUntouched) {
  const BalancedObjective objective({});
  TensorMap together, apart;
  const auto step = [&](uint32_t t, const torch::Tensor& mask) {
    const auto [logits, labels] = draw_batch(4, 10, t);
    objective({.logits = torch::stack({logits, logits}), .labels = torch::stack({labels, labels}), .mask = mask},
              together);
    objective({.logits = logits, .labels = labels}, apart);
  };
  for (uint32_t t = 0; t < 5; ++t) step(t, torch::ones({2, 4}));
  TensorMap before;
  for (const auto& [name, tensor] : together) before[name] = tensor.clone();
  for (uint32_t t = 5; t < 10; ++t) step(t, torch::stack({torch::ones({4}), torch::zeros({4})}));
  ASSERT_EQ(before.size(), 5U);
  for (const auto& [name, tensor] : together) {
    EXPECT_TRUE(torch::equal(tensor[1], before.at(name)[1])) << name;
    EXPECT_TRUE(torch::equal(tensor[0], apart.at(name))) << name;
    EXPECT_FALSE(torch::equal(tensor[0], before.at(name)[0])) << name;
  }
}

TEST(BalancedObjective, ContinuesExactlyFromASavedMemory) {
  const ScratchFolder folder;
  const BalancedObjective objective({});
  const auto train = [&](TensorMap& memory, uint32_t first, uint32_t last) {
    torch::Tensor gradient;
    for (uint32_t t = first; t < last; ++t) {
      const auto [logits, labels] = draw_batch(5, 10, t);
      gradient = objective({.logits = logits, .labels = labels}, memory).gradient;
    }
    return gradient;
  };
  TensorMap memory;
  train(memory, 0, 20);
  save_safetensors(folder.path("memory.safetensors"), {.tensors = memory});
  TensorMap restored = load_safetensors(folder.path("memory.safetensors")).tensors;
  EXPECT_TRUE(torch::equal(train(restored, 20, 30), train(memory, 20, 30)));
  for (const auto& [name, tensor] : memory) EXPECT_TRUE(torch::equal(restored.at(name), tensor)) << name;
}

TEST(BalancedObjective, ReadsItsParametersFromTheConfiguration) {
  Schema schema;
  declare_all(objectives(), schema);
  Config config(schema);
  config.set_text("objective.sgb.kp", "0");
  config.set_text("objective.sgb.ki", "0");
  config.set_text("objective.sgb.kd", "0");
  config.set_text("objective.sgb.form", "softmax");
  const auto objective = make_objective("sgb", config);
  TensorMap memory;
  const auto [logits, labels] = draw_batch(5, 10, 0);
  const LogitBatch batch{.logits = logits, .labels = labels};
  (*objective)(batch, memory);
  EXPECT_TRUE(torch::equal((*objective)(batch, memory).gradient, softmax_loss(batch).gradient));
  expect_error(Fault::usage, [&] { config.set_text("objective.sgb.form", "tanh"); }, {"objective.sgb.form", "tanh"});
}

}  // namespace fedgrab::balancer_test
