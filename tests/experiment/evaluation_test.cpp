#include "fedgrab/experiment/evaluation.h"

#include <gtest/gtest.h>

#include "fedgrab/experiment/majority_baseline.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::evaluation_test {

using Classes = std::vector<int64_t>;

Groups cifar10_groups(double factor) {
  const auto counts = long_tail_counts({.kind = LongTailKind::exponential, .factor = factor}, 5000, 10);
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
  const Groups groups = group_classes({.groups = GroupRule::mass}, counts, false);
  EXPECT_EQ(groups.many, (Classes{1}));
  EXPECT_EQ(groups.med, (Classes{2}));
  EXPECT_EQ(groups.few, (Classes{0}));
}

TEST(GroupsByMass, NeedTwoAscendingShares) {
  const Classes counts{2, 1};
  for (const std::vector<double>& mass : {std::vector<double>{0.95, 0.75}, {0.5}, {0.1, 0.2, 0.3}})
    expect_error(Fault::usage, [&] { group_classes({.groups = GroupRule::mass, .mass = mass}, counts, true); },
                 {"eval.mass"});
}

TEST(GroupsByCounts, PutTheThresholdsThemselvesIntoMed) {
  const Classes counts{101, 100, 20, 19, 0};
  const Groups groups = group_classes({}, counts, false);  // auto, of a set that is not cut
  EXPECT_EQ(groups.many, (Classes{0}));
  EXPECT_EQ(groups.med, (Classes{1, 2}));
  EXPECT_EQ(groups.few, (Classes{3, 4}));
  const Groups other = group_classes({.groups = GroupRule::counts, .thresholds = {50, 50}}, counts, true);
  EXPECT_EQ(other.many, (Classes{0, 1}));
  EXPECT_TRUE(other.med.empty());
  EXPECT_EQ(other.few, (Classes{2, 3, 4}));
}

TEST(GroupsByCounts, NeedTwoDescendingThresholds) {
  const Classes counts{2, 1};
  for (const Classes& thresholds : {Classes{20, 100}, {100}, {}})
    expect_error(Fault::usage,
                 [&] { group_classes({.groups = GroupRule::counts, .thresholds = thresholds}, counts, false); },
                 {"eval.thresholds"});
}

TEST(GroupsByCounts, AreThirdsWhereTheThresholdsTellNoClassesApart) {
  const Classes large{500, 9000, 800, 120, 3000};  // all above 100
  const Groups groups = group_classes({}, large, false);
  EXPECT_TRUE(groups.thirds);
  EXPECT_EQ(groups.many, (Classes{1, 4}));
  EXPECT_EQ(groups.med, (Classes{2}));
  EXPECT_EQ(groups.few, (Classes{0, 3}));
  const Groups two = group_classes({.groups = GroupRule::counts}, Classes{3, 9}, false);  // all below 20
  EXPECT_EQ(two.many, (Classes{1}));
  EXPECT_TRUE(two.med.empty());
  EXPECT_EQ(two.few, (Classes{0}));
}

/// Caltech-101: its smallest class keeps 25 training images.
TEST(GroupsByCounts, AreThirdsWhereNoClassIsInManyOrNoneInFew) {
  const Groups no_few = group_classes({}, Classes{256, 40, 25}, false);
  EXPECT_TRUE(no_few.thirds);
  EXPECT_EQ(no_few.few, (Classes{2}));
  const Groups no_many = group_classes({}, Classes{12, 90, 40}, false);
  EXPECT_TRUE(no_many.thirds);
  EXPECT_EQ(no_many.many, (Classes{1}));
}

TEST(GroupsByCounts, StayWhereTheyTellClassesApartOrThereIsNothingToTell) {
  EXPECT_FALSE(group_classes({}, Classes{101, 19, 19}, false).thirds);
  const Groups equal = group_classes({}, Classes{50, 50, 50}, false);
  EXPECT_FALSE(equal.thirds);
  EXPECT_EQ(equal.med, (Classes{0, 1, 2}));
}

TEST(GroupsByLists, AreTakenAsGiven) {
  const Classes counts{5, 5, 5, 5};
  const Groups groups =
      group_classes({.groups = GroupRule::lists, .many = {3}, .med = {0, 2}, .few = {1}}, counts, true);
  EXPECT_EQ(groups.many, (Classes{3}));
  EXPECT_EQ(groups.med, (Classes{0, 2}));
  EXPECT_EQ(groups.few, (Classes{1}));
}

TEST(GroupsByLists, NameTheClassThatIsMissingTwiceThereOrUnknown) {
  const Classes counts{5, 5, 5};
  const auto grouped = [&](Classes many, Classes med, Classes few) {
    group_classes({.groups = GroupRule::lists, .many = std::move(many), .med = std::move(med), .few = std::move(few)},
                  counts, true);
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

TEST(Score, BalancedAccuracyIsTheMeanOverTheClassesWithImages) {
  EXPECT_DOUBLE_EQ(value_of(score(answers, labels, {{0, 1, 2, 3}, {}, {}}, 4), Measure::balanced_accuracy).value(),
                   (0.75 + 0.5 + 0) / 3);
}

// --- The least a classifier must beat ---

Dataset tested_on(const std::vector<int32_t>& test_labels) {
  Dataset data;
  data.class_names = {"common", "rare"};
  data.test.labels = test_labels;
  return data;
}

TEST(MajorityWarning, NamesTheLargestClassAndWhatToTry) {
  const Dataset data = tested_on({0, 0, 0, 1});
  Settings settings;
  settings.method = "fedavg";
  const std::string text = majority_warning({.all = 0.75}, data, settings);
  for (const char* part :
       {"0.750", "common", "--method fedgrab+", "train.schedule=cosine", "train.lr=0.033", "--rounds"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  settings.method = "fedgrab+";
  settings.train.schedule = Schedule::cosine;
  const std::string less = majority_warning({.all = 0.5}, data, settings);
  EXPECT_EQ(less.find("--method"), std::string::npos);
  EXPECT_EQ(less.find("schedule"), std::string::npos);
}

TEST(MajorityWarning, IsNotGivenAboveTheShareOfTheLargestClass) {
  EXPECT_EQ(majority_warning({.all = 0.76}, tested_on({0, 0, 0, 1}), {}), "");
}

TEST(Score, AGroupIsPooledOverItsSamples) {
  // 3 of 4 and 1 of 2 are 4 of 6, not the mean of 0.75 and 0.5.
  EXPECT_DOUBLE_EQ(score(answers, labels, {{0, 1}, {2}, {3}}, 4).many.value(), 4.0 / 6);
}

TEST(Confusion, HasTruthInRowsAndAnswersInColumns) {
  const std::vector<std::vector<int64_t>> expected{{3, 1, 0, 0}, {1, 1, 0, 0}, {0, 1, 0, 1}, {0, 0, 0, 0}};
  EXPECT_EQ(confusion_matrix(answers, labels, 4), expected);
}

}  // namespace fedgrab::evaluation_test
