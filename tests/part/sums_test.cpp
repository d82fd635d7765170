#include "fedgrab/part/sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "fedgrab/core/random.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::sums_test {

struct Term {
  torch::Tensor values;
  double weight;
};

/// Values of very different size, whose float sum depends on the order.
std::vector<Term> terms(int64_t count, int64_t n) {
  std::vector<Term> made;
  for (int64_t k = 0; k < count; ++k) {
    Random random(1, Purpose::noise, static_cast<uint32_t>(k));
    auto values = torch::empty({n});
    for (int64_t i = 0; i < n; ++i)
      values.data_ptr<float>()[i] = static_cast<float>(random.normal() * std::pow(10, 6 * random.uniform() - 4));
    made.push_back({values, random.uniform()});
  }
  return made;
}

torch::Tensor sum_of(const std::vector<Term>& terms) {
  OrderFreeSum sum;
  for (const auto& [values, weight] : terms) sum.add(values, weight);
  return sum.value();
}

TEST(OrderFreeSum, HasTheSameBitsInAnyOrder) {
  const auto all = terms(40, 200);
  const auto expected = sum_of(all);
  auto in_floats = torch::zeros({200});
  for (const auto& [values, weight] : all) in_floats += values * weight;
  bool floats_differ = false;
  for (uint32_t shuffle = 0; shuffle < 20; ++shuffle) {
    std::vector<Term> shuffled;
    auto shuffled_floats = torch::zeros({200});
    for (const int64_t k : permutation(40, Random(2, Purpose::shuffle, shuffle))) {
      shuffled.push_back(all[static_cast<size_t>(k)]);
      shuffled_floats += shuffled.back().values * shuffled.back().weight;
    }
    EXPECT_TRUE(torch::equal(sum_of(shuffled), expected));
    floats_differ |= !torch::equal(shuffled_floats, in_floats);
  }
  EXPECT_TRUE(floats_differ);  // else the terms would prove nothing
}

TEST(OrderFreeSum, HasTheSameBitsFromSeveralThreads) {
  const auto all = terms(64, 500);
  Sums sums;
  std::vector<std::thread> threads;
  for (size_t worker = 0; worker < 4; ++worker)
    threads.emplace_back([&, worker] {
      for (size_t k = worker; k < all.size(); k += 4)
        sums.add(k % 2 == 0 ? "even" : "odd", all[k].values, all[k].weight);
    });
  for (auto& thread : threads) thread.join();
  std::vector<Term> even, odd;
  for (size_t k = 0; k < all.size(); ++k) (k % 2 == 0 ? even : odd).push_back(all[k]);
  EXPECT_TRUE(torch::equal(sums["even"], sum_of(even)));
  EXPECT_TRUE(torch::equal(sums["odd"], sum_of(odd)));
}

TEST(OrderFreeSum, IsAsExactAsAFloatCanBe) {
  const auto all = terms(100, 300);
  auto exact = torch::zeros({300}, torch::kDouble);
  for (const auto& [values, weight] : all) exact += values.to(torch::kDouble) * weight;
  const auto gap = (sum_of(all).to(torch::kDouble) - exact).abs();
  // Half a unit of the last place of the result, and of the fixed point once per term.
  EXPECT_TRUE((gap <= exact.abs() * 0x1.0p-24 + 100 * 0x1.0p-41).all().item<bool>());
}

TEST(OrderFreeSum, GivesASingleClientItsOwnWeightsBack) {
  const auto values = torch::tensor({0.1F, -3.3333333F, 1e-3F, 123456.7F, 0.0F});
  EXPECT_TRUE(torch::equal(sum_of({{values, 1.0}}), values));
}

TEST(OrderFreeSum, KeepsWeightsFarSmallerThanAnyLearningRate) {
  const auto tiny = torch::full({1}, 1e-7F);
  EXPECT_NEAR(sum_of({{tiny, 0.25}, {tiny, 0.75}}).item<double>(), 1e-7, 2e-12);
}

TEST(OrderFreeSum, TakesTensorsThatAreNotContiguous) {
  const auto matrix = torch::arange(6, torch::kFloat).view({2, 3});
  EXPECT_TRUE(torch::equal(sum_of({{matrix.t(), 1.0}}), torch::tensor({0.0F, 3.0F, 1.0F, 4.0F, 2.0F, 5.0F})));
}

TEST(OrderFreeSum, RefusesWhatIsNotFinite) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    OrderFreeSum sum;
    expect_error(Fault::other, [&] { sum.add(torch::tensor({1.0F, bad}), 0.5); }, {"no longer finite", "train.lr"});
  }
}

TEST(OrderFreeSum, RefusesWeightsNoTrainingProduces) {
  for (const float bad : {5e6F, -5e6F, std::numeric_limits<float>::max()}) {
    OrderFreeSum sum;
    expect_error(Fault::other, [&] { sum.add(torch::tensor({bad}), 1.0); }, {"training"});
  }
}

TEST(OrderFreeSum, RefusesASumThatWouldWrapAround) {
  for (const float sign : {1.0F, -1.0F}) {
    OrderFreeSum sum;
    expect_error(Fault::other,
                 [&] {
                   for (int client = 0; client < 4; ++client) sum.add(torch::tensor({sign * 4e6F}), 1.0);
                 },
                 {"training"});
  }
}

TEST(Sums, KnowWhatWasContributed) {
  Sums sums;
  sums.add("state", torch::ones({2}), 0.5);
  EXPECT_TRUE(sums.contains("state"));
  EXPECT_FALSE(sums.contains("control"));
}

}  // namespace fedgrab::sums_test
