#include "fedgrab/record/measures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "record/measures/bootstrap.h"
#include "record/measures/calibration.h"
#include "record/measures/ranking.h"

namespace fedgrab::measures_test {

/// Owns what ModelOutputs looks at.
struct Case {
  std::vector<int32_t> labels, answers;
  std::vector<float> logits;
  int64_t classes = 0;

  ModelOutputs outputs() const { return {labels, answers, logits, classes}; }
};

std::vector<int32_t> largest_of(const std::vector<float>& logits, int64_t classes) {
  std::vector<int32_t> answers;
  for (auto row = logits.begin(); row != logits.end(); row += classes)
    answers.push_back(static_cast<int32_t>(std::max_element(row, row + classes) - row));
  return answers;
}

Case case_of(const Json& json) {
  Case c{json["labels"], {}, json["logits"], json["classes"]};
  c.answers = largest_of(c.logits, c.classes);
  return c;
}

Json reference() {
  std::ifstream file(FEDGRAB_TEST_DATA "/record/measures_reference.json");
  return Json::parse(file);
}

constexpr double tolerance = 1e-6;

void expect_same(const std::vector<std::optional<MeasuredValue>>& ours, const Json& theirs, const std::string& name) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  for (size_t c = 0; c < ours.size(); ++c) {
    ASSERT_EQ(ours[c].has_value(), theirs[c].is_number()) << name << " class " << c;
    if (!ours[c]) continue;
    EXPECT_NEAR(ours[c]->value, theirs[c].get<double>(), tolerance) << name << " class " << c;
  }
}

// --- Against scikit-learn ---

TEST(Measures, AgreeWithScikitLearn) {
  const Json all = reference();
  ASSERT_GE(all.size(), 4U);
  for (const auto& [name, json] : all.items()) {
    const Case c = case_of(json);
    const auto report = measures_with_intervals(c.outputs(), json["specificity"], {.resamples = 0});
    ASSERT_EQ(report.values.size(), json["measures"].size()) << name;
    for (const auto& [measure, value] : report.values)
      EXPECT_NEAR(value.value, json["measures"][name_of(measure)].get<double>(), tolerance)
          << name << " " << name_of(measure);
    expect_same(report.auroc, json["auroc"], name);
    expect_same(report.sensitivity, json["sensitivity"], name);
  }
}

TEST(Measures, OfARoundAreThoseOfTheEnd) {
  const Json json = reference()["long tail"];
  const Case c = case_of(json);
  const auto at_the_end = measures_with_intervals(c.outputs(), json["specificity"], {.resamples = 0}).plain();
  const auto of_a_round = measures_of(c.outputs(), json["specificity"]);
  EXPECT_EQ(of_a_round.size() + 1, at_the_end.size());  // without the accuracy
  for (const auto& [measure, value] : of_a_round) EXPECT_DOUBLE_EQ(value, at_the_end.at(measure)) << name_of(measure);
}

// --- By hand ---

const std::vector<int32_t> once{1, 1, 1, 1, 1};

TEST(Auroc, CountsATieAsHalf) {
  // Of the 2 × 3 pairs the first positive wins 3, the second wins 1 and ties with 1.
  const std::vector<double> scores{0.9, 0.4, 0.5, 0.4, 0.1};
  const auto point = Ranking(scores, std::vector<int32_t>{1, 1, 0, 0, 0}, 1).roc(once, 0.9);
  EXPECT_DOUBLE_EQ(point.value().auroc, 4.5 / 6);
}

TEST(Auroc, WeighsImages) {
  const std::vector<double> scores{0.9, 0.4, 0.5, 0.4, 0.1};
  const std::vector<int32_t> weights{2, 1, 0, 1, 3};  // 3 positives, 4 negatives
  const auto point = Ranking(scores, std::vector<int32_t>{1, 1, 0, 0, 0}, 1).roc(weights, 0.9);
  EXPECT_DOUBLE_EQ(point.value().auroc, (2 * 4 + 3 + 0.5) / 12);
}

TEST(Auroc, NeedsImagesOfTheClassAndOthers) {
  const std::vector<double> scores{0.1, 0.2};
  const std::vector<int32_t> weights{1, 1}, labels{0, 0};
  EXPECT_FALSE(Ranking(scores, labels, 0).roc(weights, 0.9));
  EXPECT_FALSE(Ranking(scores, labels, 1).roc(weights, 0.9));
}

TEST(Sensitivity, IsTheLargestThatKeepsTheSpecificity) {
  // Ten negatives; one above the second positive: a specificity of 0.9, whatever the last digit of 1 - 0.9 is.
  std::vector<double> scores{0.95, 0.7, 0.2};
  std::vector<int32_t> labels{1, 1, 1};
  for (int i = 0; i < 10; ++i) {
    scores.push_back(i == 0 ? 0.8 : 0.3 + 0.01 * i);
    labels.push_back(0);
  }
  const std::vector<int32_t> weights(labels.size(), 1);
  const Ranking ranking(scores, labels, 1);
  EXPECT_DOUBLE_EQ(ranking.roc(weights, 0.9)->sensitivity, 2.0 / 3);
  EXPECT_DOUBLE_EQ(ranking.roc(weights, 0.91)->sensitivity, 1.0 / 3);
  EXPECT_DOUBLE_EQ(ranking.roc(weights, 0)->sensitivity, 1);
  EXPECT_DOUBLE_EQ(ranking.roc(weights, 1)->sensitivity, 1.0 / 3);
}

TEST(CalibrationError, IsTheMeanGapOverBins) {
  // Bin 0.8 to 0.867: half is right at a mean confidence of 0.85. Bin 0.333 to 0.4: right at 0.35.
  const std::vector<Answer> answers{{0.85, true}, {0.85, false}, {0.35, true}};
  EXPECT_DOUBLE_EQ(expected_calibration_error(answers, std::vector<int32_t>{1, 1, 1}), (0.35 * 2 + 0.65) / 3);
  EXPECT_DOUBLE_EQ(expected_calibration_error(answers, std::vector<int32_t>{3, 0, 0}), 0.15);
}

TEST(CalibrationError, PutsABoundIntoTheLowerBin) {
  // 0.4 is the upper bound of its bin: alone there, and apart from what is above it.
  const std::vector<Answer> answers{{6.0 / 15, true}, {0.41, false}};
  EXPECT_DOUBLE_EQ(expected_calibration_error(answers, std::vector<int32_t>{1, 1}), (0.6 + 0.41) / 2);
}

TEST(Measures, LeaveOutProbabilitiesWithoutLogitsOrWithNaN) {
  Case c{{0, 1, 1}, {0, 1, 0}, {}, 2};
  EXPECT_EQ(measures_of(c.outputs(), 0.9).size(), 2U);
  c.logits = {2, 1, 0, 1, std::numeric_limits<float>::quiet_NaN(), 0};
  const auto report = measures_with_intervals(c.outputs(), 0.9, {.resamples = 10});
  EXPECT_EQ(report.values.size(), 3U);
  EXPECT_TRUE(report.auroc.empty());
}

TEST(Measures, MacroF1PassesOverAClassWithoutImageOrAnswer) {
  const Case c{{0, 1}, {0, 1}, {}, 3};
  EXPECT_DOUBLE_EQ(measures_of(c.outputs(), 0.9).at(Measure::macro_f1), 1);
}

// --- Intervals ---

TEST(Bootstrap, DrawsAsManyImagesAsThereAre) {
  const auto weights = bootstrap_weights(1000, 7, 3);
  EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), 0), 1000);
  const auto left_out = std::count(weights.begin(), weights.end(), 0);
  EXPECT_NEAR(static_cast<double>(left_out), 1000 / std::exp(1), 60);
  EXPECT_EQ(weights, bootstrap_weights(1000, 7, 3));
  EXPECT_NE(weights, bootstrap_weights(1000, 7, 4));
  EXPECT_NE(weights, bootstrap_weights(1000, 8, 3));
}

TEST(Bootstrap, InterpolatesPercentiles) {
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  const auto interval = percentile_interval(values).value();
  EXPECT_DOUBLE_EQ(interval.low, 2.5);
  EXPECT_DOUBLE_EQ(interval.high, 97.5);
  EXPECT_FALSE(percentile_interval({}));
}

TEST(Intervals, DoNotDependOnTheNumberOfWorkers) {
  const Case c = case_of(reference()["long tail"]);
  const auto with = [&](int workers) {
    return to_json(measures_with_intervals(c.outputs(), 0.9, {.resamples = 50, .seed = 3, .workers = workers})).dump();
  };
  EXPECT_EQ(with(1), with(3));
}

TEST(Intervals, OfTheAccuracyHaveTheWidthOfTheNormalApproximation) {
  Case c{{}, {}, {}, 2};
  for (int i = 0; i < 400; ++i) {
    c.labels.push_back(i % 2);
    c.answers.push_back(i % 10 < 2 ? 1 - i % 2 : i % 2);  // 0.8 are right
  }
  const auto report = measures_with_intervals(c.outputs(), 0.9, {.resamples = 2000, .seed = 1});
  const auto& accuracy = report.values.at(Measure::accuracy);
  EXPECT_DOUBLE_EQ(accuracy.value, 0.8);
  const double half = 1.96 * std::sqrt(0.8 * 0.2 / 400);
  EXPECT_NEAR(accuracy.interval.value().low, 0.8 - half, 0.006);
  EXPECT_NEAR(accuracy.interval.value().high, 0.8 + half, 0.006);
}

TEST(Intervals, AreLeftOutWithoutResamples) {
  const Case c = case_of(reference()["two classes"]);
  const Json json = to_json(measures_with_intervals(c.outputs(), 0.9, {.resamples = 0}));
  EXPECT_TRUE(json["auroc"].contains("value"));
  EXPECT_FALSE(json["auroc"].contains("low"));
}

TEST(Intervals, HoldTheValueOfEveryMeasure) {
  const Case c = case_of(reference()["two classes"]);
  const auto report = measures_with_intervals(c.outputs(), 0.9, {.resamples = 200});
  EXPECT_EQ(report.values.size(), all_names<Measure>().size());
  for (const auto& [measure, value] : report.values) {
    EXPECT_LE(value.interval.value().low, value.value) << name_of(measure);
    EXPECT_GE(value.interval.value().high, value.value) << name_of(measure);
  }
  EXPECT_TRUE(report.auroc.front()->interval);
}

TEST(MeasureJson, ComesBackByName) {
  const MeasureValues values{{Measure::auroc, 0.75}, {Measure::ece, 0.1}};
  EXPECT_EQ(to_json(values), Json({{"auroc", 0.75}, {"ece", 0.1}}));
  EXPECT_EQ(measures_from_json(Json::parse(R"({"auroc":0.75,"ece":0.1,"later":1,"macro_f1":null})")), values);
}

}  // namespace fedgrab::measures_test
