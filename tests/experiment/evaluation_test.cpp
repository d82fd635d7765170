#include "fedgrab/experiment/evaluation.h"

#include <gtest/gtest.h>

#include "fedgrab/experiment/summary.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::evaluation_test {

using Classes = std::vector<int64_t>;

Groups cifar10_groups(double factor) {
  const auto counts = long_tail_counts({.kind = "exponential", .factor = factor}, 5000, 10);
  return group_classes({}, counts, true);
}

// --- Groups ---

TEST(GroupsByMass, AreThoseOfThePapersTable) {  // 75 % and 95 % of the cumulative mass
  const Groups ten = cifar10_groups(10), fifty = cifar10_groups(50), hundred = cifar10_groups(100);
  EXPECT_EQ(ten.many, (Classes{0, 1, 2, 3, 4}));
  EXPECT_EQ(ten.med, (Classes{5, 6, 7, 8}));
  EXPECT_EQ(ten.few, (Classes{9}));
  EXPECT_EQ(fifty.many, (Classes{0, 1, 2, 3}));
  EXPECT_EQ(fifty.med, (Classes{4, 5, 6}));
  EXPECT_EQ(fifty.few, (Classes{7, 8, 9}));
  EXPECT_EQ(hundred.many, (Classes{0, 1, 2}));
  EXPECT_EQ(hundred.med, (Classes{3, 4, 5}));
  EXPECT_EQ(hundred.few, (Classes{6, 7, 8, 9}));
}

TEST(GroupsByMass, GoByCountWhateverTheOrderOfTheClasses) {
  const Classes counts{1, 90, 9};
  const Groups groups = group_classes({.groups = "mass"}, counts, false);
  EXPECT_EQ(groups.many, (Classes{1}));
  EXPECT_EQ(groups.med, (Classes{2}));
  EXPECT_EQ(groups.few, (Classes{0}));
}

TEST(GroupsByMass, NeedTwoAscendingShares) {
  const Classes counts{2, 1};
  for (const std::vector<double>& mass : {std::vector<double>{0.95, 0.75}, {0.5}, {0.1, 0.2, 0.3}})
    expect_error(Fault::usage, [&] { group_classes({.groups = "mass", .mass = mass}, counts, true); }, {"eval.mass"});
}

TEST(GroupsByCounts, PutTheThresholdsThemselvesIntoMed) {
  const Classes counts{101, 100, 20, 19, 0};
  const Groups groups = group_classes({}, counts, false);  // auto, of a set that is not cut
  EXPECT_EQ(groups.many, (Classes{0}));
  EXPECT_EQ(groups.med, (Classes{1, 2}));
  EXPECT_EQ(groups.few, (Classes{3, 4}));
  const Groups other = group_classes({.groups = "counts", .thresholds = {50, 50}}, counts, true);
  EXPECT_EQ(other.many, (Classes{0, 1}));
  EXPECT_TRUE(other.med.empty());
  EXPECT_EQ(other.few, (Classes{2, 3, 4}));
}

TEST(GroupsByCounts, NeedTwoDescendingThresholds) {
  const Classes counts{2, 1};
  for (const Classes& thresholds : {Classes{20, 100}, {100}, {}})
    expect_error(Fault::usage, [&] { group_classes({.groups = "counts", .thresholds = thresholds}, counts, false); },
                 {"eval.thresholds"});
}

TEST(GroupsByLists, AreTakenAsGiven) {
  const Classes counts{5, 5, 5, 5};
  const Groups groups = group_classes({.groups = "lists", .many = {3}, .med = {0, 2}, .few = {1}}, counts, true);
  EXPECT_EQ(groups.many, (Classes{3}));
  EXPECT_EQ(groups.med, (Classes{0, 2}));
  EXPECT_EQ(groups.few, (Classes{1}));
}

TEST(GroupsByLists, NameTheClassThatIsMissingTwiceThereOrUnknown) {
  const Classes counts{5, 5, 5};
  const auto grouped = [&](Classes many, Classes med, Classes few) {
    group_classes({.groups = "lists", .many = std::move(many), .med = std::move(med), .few = std::move(few)}, counts,
                  true);
  };
  expect_error(Fault::usage, [&] { grouped({0}, {2}, {}); }, {"eval.many", "class 1", "0 times"});
  expect_error(Fault::usage, [&] { grouped({0, 1}, {2}, {1}); }, {"eval.many", "class 1", "2 times"});
  expect_error(Fault::usage, [&] { grouped({0, 1}, {2}, {3}); }, {"eval.many", "class 3"});
}

// --- Scores ---

// Class 0: 3 of 4 right. Class 1: 1 of 2. Class 2: none of 2. Class 3 has no test sample, and one answer names it.
const std::vector<int32_t> labels{0, 0, 0, 0, 1, 1, 2, 2};
const std::vector<int32_t> answers{0, 0, 0, 1, 1, 0, 1, 3};

TEST(Score, CountsRightAnswersByHand) {
  const Accuracy a = score(answers, labels, {{0}, {1, 2}, {3}}, 4);
  EXPECT_DOUBLE_EQ(a.all, 4.0 / 8);
  EXPECT_DOUBLE_EQ(a.many.value(), 3.0 / 4);
  EXPECT_DOUBLE_EQ(a.med.value(), 1.0 / 4);
  EXPECT_FALSE(a.few);  // nothing to be right about
  EXPECT_EQ(a.per_class, (std::vector<double>{0.75, 0.5, 0, 0}));
}

TEST(Score, MacroF1IsTheMeanOverClassesByHand) {
  // Class 0: precision 3/4, recall 3/4. Class 1: precision 1/3, recall 1/2, so F1 2/5. Classes 2 and 3: nothing right.
  EXPECT_DOUBLE_EQ(score(answers, labels, {{0, 1, 2, 3}, {}, {}}, 4).f1, (0.75 + 0.4 + 0 + 0) / 4);
  EXPECT_DOUBLE_EQ(score(labels, labels, {{0, 1, 2}, {}, {}}, 3).f1, 1);
}

TEST(Score, AGroupIsPooledOverItsSamples) {
  // 3 of 4 and 1 of 2 are 4 of 6, not the mean of 0.75 and 0.5.
  EXPECT_DOUBLE_EQ(score(answers, labels, {{0, 1}, {2}, {3}}, 4).many.value(), 4.0 / 6);
}

TEST(Confusion, HasTruthInRowsAndAnswersInColumns) {
  const std::vector<std::vector<int64_t>> expected{{3, 1, 0, 0}, {1, 1, 0, 0}, {0, 1, 0, 1}, {0, 0, 0, 0}};
  EXPECT_EQ(confusion_matrix(answers, labels, 4), expected);
}

// --- Summary ---

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
  const Summary summary = summarise(records);
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
  EXPECT_EQ(summarise(records, "few").best_round, 2);
  EXPECT_EQ(summarise(records, "macro-f1").best_round, 3);
  EXPECT_EQ(to_json(summarise(records, "few"))["best"]["criterion"], "few");
  for (auto& record : records) record.validation = Accuracy{.all = 0.5, .few = 0.1};
  records[0].validation->few = 0.3;
  EXPECT_EQ(summarise(records, "few").best_round, 1);  // the validation split decides
}

TEST(Summarise, SaysHowManyEvaluationsTheMeanHas) {
  EXPECT_EQ(summarise({evaluated(1, 0.2), RoundRecord{.round = 2}, evaluated(3, 0.4)}).averaged, 2);
  EXPECT_EQ(summarise(std::vector<RoundRecord>(12, evaluated(1, 0.2))).averaged, 10);
}

TEST(Summarise, FindsTheFirstRoundInWhichFewReached55Percent) {
  EXPECT_EQ(summarise({evaluated(1, 0.5, 0.549), evaluated(2, 0.5, 0.55), evaluated(3, 0.5, 0.6)}).few_round, 2);
  EXPECT_EQ(summarise({evaluated(1, 0.9, 0.54)}).few_round, std::nullopt);
  EXPECT_EQ(summarise({evaluated(1, 0.9, std::nullopt)}).few_round, std::nullopt);
}

TEST(Summarise, AMissingGroupStaysMissing) {
  EXPECT_FALSE(summarise({evaluated(1, 0.9, std::nullopt)}).mean_last_10.few);
}

TEST(Summarise, OfNothingIsEmpty) { EXPECT_EQ(summarise({}).rounds, 0); }

}  // namespace fedgrab::evaluation_test
