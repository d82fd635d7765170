#include "fedgrab/record/summary.h"

#include <gtest/gtest.h>

namespace fedgrab::summary_test {

RoundRecord evaluated(int64_t round, double all, std::optional<double> few = 0.1) {
  RoundRecord record{.round = round};
  record.accuracy = Accuracy{.all = all, .many = all, .med = all, .few = few, .per_class = {all, 0.5}, .f1 = all / 2};
  record.seconds = 2;
  return record;
}

TEST(Summarise, GivesLastMeanOfTheLastTenAndBest) {
  std::vector<RoundRecord> records;
  for (int64_t round = 1; round <= 12; ++round) records.push_back(evaluated(round, 0.01 * static_cast<double>(round)));
  records[4].accuracy->all = 0.9;
  const Summary summary = summarise(records, Criterion::all);
  EXPECT_EQ(summary.rounds, 12);
  EXPECT_DOUBLE_EQ(summary.last.all, 0.12);
  EXPECT_NEAR(summary.mean_last_10.all, (0.03 + 0.04 + 0.9 + 0.06 + 0.07 + 0.08 + 0.09 + 0.10 + 0.11 + 0.12) / 10,
              1e-12);
  EXPECT_NEAR(summary.mean_last_10.f1, 0.075 / 2, 1e-12);
  EXPECT_NEAR(summary.mean_last_10.few.value(), 0.1, 1e-12);
  EXPECT_NEAR(summary.mean_last_10.per_class[0], 0.075, 1e-12);
  EXPECT_NEAR(summary.mean_last_10.per_class[1], 0.5, 1e-12);
  EXPECT_EQ(summary.best_round, 5);
  EXPECT_DOUBLE_EQ(summary.best.all, 0.9);
  EXPECT_FALSE(summary.best_by_validation);
  EXPECT_DOUBLE_EQ(summary.seconds, 24);
}

TEST(Summarise, OfEqualsTheFirstRoundIsBest) {
  EXPECT_EQ(summarise({evaluated(1, 0.2), evaluated(2, 0.5), evaluated(3, 0.5)}).best_round, 2);
}

TEST(Summarise, PassesOverRoundsThatWereNotEvaluated) {
  const Summary summary = summarise({evaluated(1, 0.2), RoundRecord{.round = 2}, evaluated(3, 0.4)});
  EXPECT_EQ(summary.rounds, 3);
  EXPECT_NEAR(summary.mean_last_10.all, 0.3, 1e-12);
}

TEST(Summarise, LetsTheValidationSetChoose) {
  std::vector<RoundRecord> records{evaluated(1, 0.9), evaluated(2, 0.3), evaluated(3, 0.4)};
  records[0].validation = Accuracy{.all = 0.1};
  records[1].validation = Accuracy{.all = 0.8};
  records[2].validation = Accuracy{.all = 0.2};
  const Summary summary = summarise(records);
  EXPECT_TRUE(summary.best_by_validation);
  EXPECT_EQ(summary.best_round, 2);
  EXPECT_DOUBLE_EQ(summary.best.all, 0.3);  // on the test set
}

TEST(Summarise, ChoosesTheBestRoundByTheCriterion) {
  std::vector<RoundRecord> records{evaluated(1, 0.9, 0.1), evaluated(2, 0.3, 0.4), evaluated(3, 0.4, 0.2)};
  records[2].accuracy->f1 = 0.8;
  EXPECT_EQ(summarise(records).best_round, 1);
  EXPECT_EQ(summarise(records, Criterion::few).best_round, 2);
  EXPECT_EQ(summarise(records, Criterion::macro_f1).best_round, 3);
  EXPECT_EQ(to_json(summarise(records, Criterion::few))["best"]["criterion"], "few");
  for (auto& record : records) record.validation = Accuracy{.all = 0.5, .few = 0.1};
  records[0].validation->few = 0.3;
  EXPECT_EQ(summarise(records, Criterion::few).best_round, 1);  // the validation split decides
}

TEST(Summarise, ChoosesByBalancedAccuracyUnlessToldOtherwise) {
  std::vector<RoundRecord> records{evaluated(1, 0.9), evaluated(2, 0.6)};
  records[0].accuracy->measures[Measure::balanced_accuracy] = 0.3;
  records[1].accuracy->measures[Measure::balanced_accuracy] = 0.5;
  EXPECT_EQ(summarise(records).best_round, 2);
  EXPECT_EQ(summarise(records).criterion, "balanced-accuracy");
  for (auto& record : records) record.accuracy->measures.clear();  // as version 0.1 wrote them
  records[0].accuracy->per_class = {1, 0.1};
  records[1].accuracy->per_class = {0.6, 0.6};
  EXPECT_EQ(summarise(records).best_round, 2);
}

TEST(Summarise, AveragesMeasures) {
  std::vector<RoundRecord> records{evaluated(1, 0.9), evaluated(2, 0.6)};
  records[0].accuracy->measures = {{Measure::auroc, 0.5}, {Measure::ece, 0.1}};
  records[1].accuracy->measures = {{Measure::auroc, 0.75}};
  const auto mean = summarise(records).mean_last_10;
  EXPECT_DOUBLE_EQ(value_of(mean, Measure::auroc).value(), 0.625);
  EXPECT_FALSE(value_of(mean, Measure::ece));  // not of every evaluation
  EXPECT_DOUBLE_EQ(value_of(mean, Measure::macro_f1).value(), mean.f1);
  EXPECT_DOUBLE_EQ(value_of(mean, Measure::accuracy).value(), mean.all);
}

TEST(Summarise, SaysHowManyEvaluationsTheMeanHas) {
  EXPECT_EQ(summarise({evaluated(1, 0.2), RoundRecord{.round = 2}, evaluated(3, 0.4)}).averaged, 2);
  EXPECT_EQ(summarise(std::vector<RoundRecord>(12, evaluated(1, 0.2))).averaged, 10);
}

TEST(Summarise, FindsTheFirstRoundInWhichFewReached55Percent) {
  const auto with = [](const std::vector<double>& few) {
    std::vector<RoundRecord> records;
    for (const double value : few) records.push_back(evaluated(std::ssize(records) + 1, 0.5, value));
    return summarise(records).few_round;
  };
  EXPECT_EQ(with({0.549, 0.55, 0.6, 0.2}), 2);
  EXPECT_EQ(with({0.9, 0.2, 0.6, 0.6, 0.1}), 3);             // a single spike does not count
  EXPECT_EQ(with({0.1, 0.2, 0.3, 0.4, 0.9}), std::nullopt);  // nor does one at the end
  EXPECT_EQ(summarise({evaluated(1, 0.9, 0.54)}).few_round, std::nullopt);
  EXPECT_EQ(summarise({evaluated(1, 0.9, std::nullopt)}).few_round, std::nullopt);
}

TEST(Summarise, AMissingGroupStaysMissing) {
  EXPECT_FALSE(summarise({evaluated(1, 0.9, std::nullopt)}).mean_last_10.few);
}

TEST(Summarise, OfNothingIsEmpty) { EXPECT_EQ(summarise({}).rounds, 0); }

}  // namespace fedgrab::summary_test
