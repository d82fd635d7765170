/// Post-hoc classifiers fitted to logits.
#include "method/posthoc/fitting.h"

#include <gtest/gtest.h>

namespace fedgrab::fitting_test {

/// Logits of `each` images a class: the own class is ahead by 2 in the mean, and `bias` is added.
struct Images {
  torch::Tensor logits, labels;

  Images(const torch::Tensor& bias, const std::vector<int64_t>& each) {
    torch::manual_seed(1);
    std::vector<int64_t> classes;
    for (size_t c = 0; c < each.size(); ++c)
      classes.insert(classes.end(), static_cast<size_t>(each[c]), static_cast<int64_t>(c));
    labels = torch::tensor(classes);
    const auto own = torch::one_hot(labels, static_cast<int64_t>(each.size())).to(torch::kDouble) * 2;
    logits = own + torch::randn(own.sizes(), torch::kDouble) + bias;
  }
};

double balanced_loss(const Images& images, const torch::Tensor& offset) {
  const auto own = (images.logits + offset).log_softmax(1).gather(1, images.labels.unsqueeze(1)).squeeze(1);
  return -(own * class_balanced_weights(images.labels, images.logits.size(1))).sum().item<double>();
}

torch::Tensor fit(const Images& images, double ridge, double balance = 1) {
  return fit_class_bias(images.logits, images.labels,
                        class_balanced_weights(images.labels, images.logits.size(1), balance), ridge);
}

TEST(ClassBalancedWeights, GiveEachPresentClassTheSame) {
  const auto weights = class_balanced_weights(torch::tensor(std::vector<int64_t>{0, 0, 0, 2}), 4);
  EXPECT_DOUBLE_EQ(weights[0].item<double>(), 1.0 / 6);
  EXPECT_DOUBLE_EQ(weights[3].item<double>(), 0.5);
}

TEST(FitClassBias, UndoesABiasThatWasAdded) {
  const auto added = torch::tensor({1.5, 0.0, -0.5, -1.0}, torch::kDouble);
  const Images images(added, {4000, 1000, 500, 250});
  const auto fitted = fit(images, 1e-6).to(torch::kDouble);
  const auto sum = fitted + added;  // equal for all classes: a constant changes nothing
  EXPECT_LT((sum - sum.mean()).abs().max().item<double>(), 0.2) << sum;
}

TEST(FitClassBias, IsTheLowestPointOfTheLossWithItsPenalty) {
  const Images images(torch::tensor({1.0, 0.0, -1.0}, torch::kDouble), {300, 100, 30});
  const double ridge = 0.1 / 3;
  const auto bias = fit(images, ridge).to(torch::kDouble);
  const auto objective = [&](const torch::Tensor& b) {
    return balanced_loss(images, b) + ridge / 2 * b.square().sum().item<double>();
  };
  const double least = objective(bias);
  EXPECT_LT(least, objective(torch::zeros(3, torch::kDouble)) - 0.01);
  for (int64_t c = 0; c < 3; ++c)
    for (const double step : {-0.02, 0.02}) {
      auto moved = bias.clone();
      moved[c] += step;
      EXPECT_GT(objective(moved), least);
    }
}

TEST(FitClassBias, FollowsTheSharesOfTheImagesAsFarAsTheyMayWeigh) {
  const Images images(torch::zeros({2}, torch::kDouble), {9000, 1000});
  const auto lead = [&](double balance) {
    const auto bias = fit(images, 1e-6, balance);
    return (bias[0] - bias[1]).item<double>();
  };
  EXPECT_NEAR(lead(1), 0, 0.1);  // equal classes: there is nothing to correct
  EXPECT_GT(lead(0.5), 0.5);
  EXPECT_GT(lead(0), lead(0.5) + 0.5);
}

TEST(FitClassBias, LeavesAClassWithoutImagesAlone) {
  const Images images(torch::tensor({1.0, 0.0, -1.0}, torch::kDouble), {300, 0, 30});
  const auto bias = fit(images, 0.03);
  EXPECT_EQ(bias[1].item<float>(), 0);
  EXPECT_LT(bias[0].item<float>(), bias[2].item<float>());
}

TEST(FitTau, FindsTheStrengthWithWhichThePriorIsInTheLogits) {
  const auto log_prior = torch::tensor({0.7, 0.2, 0.08, 0.02}, torch::kDouble).log();
  for (const double tau : {0.0, 0.5, 1.3}) {
    const Images images(log_prior * tau, {2000, 2000, 2000, 2000});
    EXPECT_NEAR(fit_tau(images.logits, images.labels, log_prior), tau, 0.05) << tau;
  }
}

TEST(FitTemperature, FindsTheFactorThatMakesLogitsTooLarge) {
  const Images honest(torch::zeros({3}, torch::kDouble), {3000, 3000, 3000});
  // Own class ahead by 2, noise of variance 1 on each logit: the posterior is softmax(2 z), its temperature 0.5.
  EXPECT_NEAR(fit_temperature(honest.logits, honest.labels), 0.5, 0.03);
  for (const double factor : {0.3, 4.0})
    EXPECT_NEAR(fit_temperature(honest.logits * factor, honest.labels), 0.5 * factor, 0.03 * factor) << factor;
}

/// Of classes that no image confuses, of which the n images alone would have us be certain.
TEST(FitTemperature, SaysHowCertainImagesWithoutAnErrorMakeIt) {
  for (const int64_t per_class : {2, 20, 200}) {
    const auto labels = torch::arange(3).repeat(per_class);
    const auto logits = torch::one_hot(labels, 3).to(torch::kDouble);
    const auto images = static_cast<double>(labels.numel());
    const double temperature = fit_temperature(logits, labels);
    const double error = 1 - (logits[0] / temperature).softmax(0)[0].item<double>();
    EXPECT_NEAR(error, 2.0 / 3 / (images + 1), 0.01 / images) << images;
  }
}

TEST(LogMeanSoftmax, IsTheClassBalancedMean) {
  const auto logits = torch::tensor({{0.9, 0.1}, {0.9, 0.1}, {0.3, 0.7}}, torch::kDouble).log();
  const auto labels = torch::tensor(std::vector<int64_t>{0, 0, 1});
  const auto q = log_mean_softmax(logits, labels).exp();
  EXPECT_NEAR(q[0].item<double>(), 0.6, 1e-6);
  EXPECT_NEAR(q[1].item<double>(), 0.4, 1e-6);
}

}  // namespace fedgrab::fitting_test
