/// Differential privacy of clients: what clipping bounds, what noise is added, and what is refused beside them.
#include "method/server/privacy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/scratch_folder.h"
#include "tests/method/tiny.h"
#include "tests/tensors.h"

namespace fedgrab::privacy_test {

const Values uniform{{"server.weights", "uniform"}};

Values with(Values settings, const Values& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

/// Clients whose models differ from the global one by given moves, everywhere.
class Private : public testing::Test {
 protected:
  void begin(const Values& settings, size_t clients, int64_t features = 1, const std::string& preset = "fedavg") {
    federation_ = std::make_unique<TinyFederation>(compose(preset, with(uniform, settings)), features, 2,
                                                   std::vector<TinyClient>(clients));
    before_ = federation_->global.clone();
  }
  /// The change of the global model.
  torch::Tensor round(const std::vector<torch::Tensor>& moves, int64_t index = 1) {
    auto& f = *federation_;
    const auto context = f.begin(index);
    Sums sums;
    for (size_t k = 0; k < moves.size(); ++k)
      f.send(f.client(context, k), {State{f.model, f.global.flat + moves[k]}, 1, 0.1, 0}, sums);
    f.global = f.method.aggregate(context, sums, f.server);
    return f.global.flat - before_.flat;
  }
  int64_t size() const { return federation_->model->size; }
  torch::Tensor even(double value) const { return torch::full({size()}, value); }

  std::unique_ptr<TinyFederation> federation_;
  State before_;
};

TEST_F(Private, ClippingBoundsTheNormOverEverythingThatIsSent) {
  begin({{"server.clip", "2"}}, 2);
  // Two statistics among the eight numbers: the norm of a move of 3 everywhere is √8 · 3.
  expect_near(round({even(3), even(0)}), even(2 / std::sqrt(8.0) / 2));
}

TEST_F(Private, AnUpdateWithinTheBoundIsLeftAlone) {
  begin({{"server.clip", "2"}}, 1);
  expect_near(round({even(0.25)}), even(0.25));
}

TEST_F(Private, NoClientMovesTheMeanByMoreThanTheBoundOverTheClients) {
  begin({{"server.clip", "0.5"}}, 4);
  const auto others = round({even(1), even(-2), even(0.01), even(0)});
  for (const double move : {-1e5, -1.0, 1e-4, 7.0, 1e5}) {
    begin({{"server.clip", "0.5"}}, 4);
    const auto with_it = round({even(1), even(-2), even(0.01), even(move)});
    EXPECT_LE((with_it - others).norm().item<double>(), 0.5 / 4 * (1 + 1e-4)) << move;
  }
}

TEST_F(Private, AuxiliaryHeadsAreClippedAsWell) {
  begin({{"server.clip", "1"}, {"prior.source", "dpa"}}, 1);
  EXPECT_NEAR(round({even(10)}).norm().item<double>(), 1, 1e-4);
}

TEST_F(Private, WhatIsNotAveragedIsNotSent) {
  begin({{"server.clip", "1"}, {"head.frozen", "true"}}, 1);
  const auto& f = *federation_;
  auto moved = f.global.clone();
  moved.flat.add_(5);
  const auto sent = clipped_update(moved.flat, f.global, 1);
  for (const auto& p : f.model->parameters)
    EXPECT_EQ(torch::equal(sent.narrow(0, p.offset, p.size), f.global.flat.narrow(0, p.offset, p.size)),
              p.role != Role::shared)
        << p.name;
}

TEST_F(Private, WithoutClippingTheModelItselfIsSent) {
  begin({}, 1);
  auto& f = *federation_;
  const auto context = f.begin();
  const State local{f.model, f.global.flat + 3};
  EXPECT_TRUE(f.method.after_training(f.client(context), {local, 1, 0.1, 0}).front().values.is_same(local.flat));
}

TEST_F(Private, AModelThatIsNotFiniteIsStillNoticed) {
  for (const double move : {double{NAN}, double{INFINITY}}) {
    begin({{"server.clip", "1"}}, 1);
    EXPECT_THROW(round({even(move)}), Error);
  }
}

// ---- noise

/// The noise alone: nobody moves.
torch::Tensor noise_of(TinyFederation& f, int64_t round) {
  const State before = f.global.clone();
  const auto context = f.begin(round);
  Sums sums;
  for (size_t k = 0; k < f.clients.size(); ++k) f.send(f.client(context, k), {before, 1, 0.1, 0}, sums);
  return f.method.aggregate(context, sums, f.server).flat - before.flat;
}

TEST_F(Private, NoiseHasTheDeviationThatTheAccountantCountsOn) {
  begin({{"server.clip", "3"}, {"server.noise", "0.5"}}, 5, 5000);
  const auto noise = noise_of(*federation_, 1);
  std::vector<torch::Tensor> parts;
  for (const auto& [offset, size] : optimised_ranges(*federation_->model))
    parts.push_back(noise.narrow(0, offset, size));
  for (const auto& p : federation_->model->parameters)
    if (p.kind == ParameterKind::running_mean) parts.push_back(noise.narrow(0, p.offset, p.size));
  const auto all = torch::cat(parts);
  const double deviation = 0.5 * 3 / 5;
  const double n = static_cast<double>(all.numel());
  ASSERT_GT(n, 20000);
  EXPECT_NEAR(all.mean().item<double>(), 0, 4 * deviation / std::sqrt(n));
  EXPECT_NEAR(all.std().item<double>(), deviation, 4 * deviation / std::sqrt(2 * n));
}

TEST_F(Private, NoiseIsAFunctionOfSeedAndRound) {
  begin({{"server.clip", "1"}, {"server.noise", "1"}}, 2);
  const auto first = noise_of(*federation_, 1);
  EXPECT_TRUE(torch::equal(first, noise_of(*federation_, 1)));
  EXPECT_FALSE(torch::equal(first, noise_of(*federation_, 2)));
}

TEST_F(Private, NoiseLeavesAFrozenHeadAlone) {
  begin({{"server.clip", "1"}, {"server.noise", "1"}, {"head.frozen", "true"}}, 2);
  round({even(0), even(0)});
  for (const auto& p : federation_->model->parameters)
    EXPECT_EQ(torch::equal(federation_->global.view(p), before_.view(p)), p.role == Role::frozen) << p.name;
}

TEST_F(Private, VariancesStayLargeEnoughToDivideBy) {
  begin({{"server.clip", "10"}, {"server.noise", "10"}}, 1, 1000);
  round({even(0)});
  const auto variance = federation_->global.view("bn1.running_var");
  EXPECT_FLOAT_EQ(variance.min().item<float>(), 0.01F);
  EXPECT_GT(variance.max().item<float>(), 1);
}

TEST_F(Private, TheServerOptimiserSeesTheNoise) {
  const Values noisy{{"server.clip", "1"}, {"server.noise", "1"}};
  begin(noisy, 1);
  const auto plain = round({even(0.1)});
  begin(with(noisy, {{"server.optimizer", "momentum"}, {"server.lr", "2"}}), 1);
  const auto twice = round({even(0.1)});
  for (const auto& [offset, size] : optimised_ranges(*federation_->model))
    expect_near(twice.narrow(0, offset, size), 2 * plain.narrow(0, offset, size));
}

// ---- refusals

struct Refused {
  const char* why;
  Values settings;
  std::vector<std::string> fragments;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.why; }

class BesideClipping : public testing::TestWithParam<Refused> {};

TEST_P(BesideClipping, IsRefused) {
  const auto& [why, settings, fragments] = GetParam();
  expect_error(
      Fault::usage, [&settings = settings] { compose("fedavg", settings); }, fragments);
}

INSTANTIATE_TEST_SUITE_P(
    Parts, BesideClipping,
    testing::Values(
        Refused{"noise without a bound", {{"server.noise", "1"}}, {"server.noise", "set server.clip"}},
        Refused{"weights by sample count", {{"server.clip", "1"}}, {"server.clip", "set server.weights=uniform"}},
        Refused{"shuffled weights",
                {{"server.clip", "1"}, {"server.weights", "shuffled"}},
                {"server.clip", "set server.weights=uniform"}},
        Refused{"FedNova",
                with(uniform, {{"server.clip", "1"}, {"server.aggregator", "nova"}}),
                {"server.aggregator", "\"nova\" needs more than the model of a client"}},
        Refused{"SCAFFOLD",
                with(uniform, {{"server.clip", "1"}, {"client.algorithm", "scaffold"}}),
                {"client.algorithm", "\"scaffold\" needs more than the model"}},
        Refused{"FedDyn",
                with(uniform, {{"server.clip", "1"}, {"client.algorithm", "dyn"}}),
                {"client.algorithm", "\"dyn\" needs more than the model"}},
        Refused{"CReFF",
                with(uniform, {{"server.clip", "1"}, {"posthoc.kind", "creff"}}),
                {"posthoc.kind", "\"creff\" needs more than the model"}},
        Refused{"FedIR",
                with(uniform, {{"server.clip", "1"}, {"objective.reweight", "importance"}}),
                {"objective.reweight", "\"importance\" needs the class counts"}},
        Refused{"counts",
                with(uniform, {{"server.clip", "1"}, {"prior.source", "counts"}}),
                {"prior.source", "\"counts\" needs the class counts"}},
        Refused{"bias probe",
                with(uniform, {{"server.clip", "1"}, {"prior.source", "bias-probe"}}),
                {"prior.source", "\"bias-probe\" needs more than the model"}},
        Refused{"heads that clients draw",
                with(uniform, {{"server.clip", "1"}, {"head.init", "client-mean"}}),
                {"head.init", "\"client-mean\" needs more than the model"}},
        Refused{"a fit on training images",
                with(uniform, {{"server.clip", "1"}, {"server.noise", "1"}, {"posthoc.kind", "bias-calibration"}}),
                {"posthoc.kind", "\"bias-calibration\" is fitted on the clients' training images",
                 "longtail.validation"}}));

TEST(Clipping, SuitsWhatReadsNothingElseOfAClient) {
  for (const Values& settings :
       {Values{{"client.algorithm", "prox"}}, Values{{"client.algorithm", "moon"}}, Values{{"prior.source", "dpa"}},
        Values{{"server.optimizer", "adam"}}, Values{{"posthoc.kind", "tau-norm"}}, Values{{"posthoc.kind", "aligned"}},
        Values{{"posthoc.kind", "bias-calibration"}, {"posthoc.fit_on", "validation"}}})
    EXPECT_NO_THROW(compose("fedavg", with(with(uniform, {{"server.clip", "1"}, {"server.noise", "1"}}), settings)))
        << settings.front().second;
}

}  // namespace fedgrab::privacy_test
