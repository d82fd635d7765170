/// The decision that Fed-GraB and dpa-shift hand out.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/method/tiny.h"

namespace fedgrab::decision_test {

constexpr uint64_t seed = 11;

State start_of(const Method& method, int64_t classes = 3) {
  State state = initial_state(tiny_model(method.heads(), 2, classes), seed);
  method.initialise(state, seed);
  return state;
}

/// A probe whose rows are 4, 2 and 1 long.
State with_known_probe(const Method& method) {
  State global = start_of(method);
  global.view("probe.weight").copy_(torch::tensor({{4.0F, 0.0F}, {0.0F, 2.0F}, {0.6F, 0.8F}}));
  return global;
}

std::vector<float> shift_of(const Method& method, const State& global) {
  return method.deployed(global, no_tensors).model->heads.front().shift;
}

void expect_shift(const Method& method, const State& global, const std::vector<double>& expected) {
  const auto shift = shift_of(method, global);
  ASSERT_EQ(shift.size(), expected.size());
  for (size_t j = 0; j < expected.size(); ++j) EXPECT_NEAR(shift[j], expected[j], 1e-6) << "class " << j;
}

// ---- Fed-GraB: by the probe, or by what stands in its place

TEST(FedGrabShift, RaisesTheRarestClassByTheShiftAndTheOthersByTheLengthOfTheirRows) {
  const auto method = make_method("fedgrab", {{"shift", 3.0}});
  const State global = with_known_probe(*method);
  expect_shift(*method, global, {0, 2, 3});
  EXPECT_TRUE(global.model->heads.front().shift.empty());  // training goes on from where it was
  EXPECT_TRUE(torch::equal(method->deployed(global, no_tensors).flat, global.flat));
}

TEST(FedGrabShift, ByDefaultIsForSomeClassesButNeitherTwoNorMany) {
  const auto method = make_method("fedgrab");
  for (const int64_t classes : {2, 3, 12, 13}) {
    const State global =
        initial_state(make_model(make_architecture("cnn", {3, 32, 32}), method->heads(), classes), seed);
    EXPECT_EQ(shift_of(*method, global).empty(), classes == 2 || classes == 13) << classes;
  }
  expect_shift(*method, with_known_probe(*method), {0, 0.8 / 3, 0.4});
}

TEST(FedGrabShift, ByDefaultGoesFurtherInAWideNetwork) {
  const auto method = make_method("fedgrab");
  for (const char* network : {"cnn", "pfl-cnn", "resnet18"}) {
    const Architecture architecture = make_architecture(network, {3, 32, 32});
    const State global = initial_state(make_model(architecture, method->heads(), 10), seed);
    global.view("probe.weight")[7].div_(100);
    const auto shift = shift_of(*method, global);
    EXPECT_FLOAT_EQ(*std::max_element(shift.begin(), shift.end()), architecture.features >= 256 ? 0.7F : 0.4F)
        << network;
  }
}

std::unique_ptr<Method> by_hand(const std::vector<double>& prior, double shift) {
  return make_method("fedgrab", {{"prior", "fixed"}, {"fixed_prior", prior}, {"shift", shift}});
}

TEST(FedGrabShift, GoesByAHandSetPriorWhereThereIsOne) {
  const auto method = by_hand({0.5, 0.25, 1}, 2);
  expect_shift(*method, start_of(*method), {4.0 / 3, 2, 0});
  const auto zero = by_hand({1, 1, 0}, 0.25);
  expect_shift(*zero, start_of(*zero), {0, 0, 0.25});
  const auto nothing = by_hand({0, 0, 0}, 0.25);
  EXPECT_TRUE(shift_of(*nothing, start_of(*nothing)).empty());
}

TEST(FedGrabShift, IsNothingWithoutAPriorThatAllShare) {
  for (const Settings& settings :
       {Settings{{"shift", 0.0}}, {{"prior", "local"}, {"shift", 3.0}}, {{"prior", "none"}, {"shift", 3.0}}}) {
    const auto method = make_method("fedgrab", settings);
    EXPECT_TRUE(shift_of(*method, start_of(*method)).empty()) << settings.size();
  }
}

// ---- dpa-shift: by the rows of the head itself

TEST(DpaShift, RaisesTheShortestRowByTheShiftAndTheOthersByTheirLengths) {
  const auto method = make_method("dpa-shift", {{"shift", 5.0}});
  const State global = start_of(*method);
  global.view("fc.weight").copy_(torch::tensor({{0.0F, 4.0F}, {0.6F, 0.8F}, {2.0F, 0.0F}}));
  expect_shift(*method, global, {0, 5, 10.0 / 3});
  EXPECT_TRUE(torch::equal(method->deployed(global, no_tensors).flat, global.flat));
}

TEST(DpaShift, ShiftsLessWhereRowsAreAlikeNothingWhereTheyAreEquallyLongAndNoMoreThanTheShiftWhereOneIsZero) {
  const auto method = make_method("dpa-shift");
  const State global = start_of(*method);
  global.view("fc.weight").copy_(torch::tensor({{0.0F, 1.0F}, {1.0F, 0.0F}, {0.6F, 0.8F}}));
  expect_shift(*method, global, {0, 0, 0});
  global.view("fc.weight")[0].mul_(0.75);  // half of the way to a factor of two, and so half of the shift
  expect_shift(*method, global, {0.2, 0, 0});
  global.view("fc.weight")[1].zero_();
  expect_shift(*method, global, {0.1, 0.4, 0});
}

TEST(DpaShift, ByDefaultGoesLessFarWithManyClasses) {
  const auto method = make_method("dpa-shift");
  for (const int64_t classes : {40, 41}) {
    const State global = start_of(*method, classes);
    global.view("fc.weight")[1].div_(100);
    const auto shift = shift_of(*method, global);
    EXPECT_FLOAT_EQ(*std::max_element(shift.begin(), shift.end()), classes == 40 ? 0.4F : 0.2F);
  }
}

}  // namespace fedgrab::decision_test
