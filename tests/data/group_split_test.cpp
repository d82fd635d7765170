#include "fedgrab/data/group_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "fedgrab/core/error.h"
#include "fedgrab/core/random.h"
#include "fedgrab/data/partition.h"

namespace fedgrab::group_split_test {

/// Patients of one to many images, whose images are mostly but not all of one class, on a long tail.
struct Patients {
  explicit Patients(uint64_t seed) {
    Random random(seed, Purpose::synthetic);
    classes = 2 + static_cast<int64_t>(random.below(7));
    const auto patients = 5 + static_cast<int32_t>(random.below(60));
    const uint64_t most = 1 + random.below(30);
    for (int32_t patient = 0; patient < patients; ++patient) {
      const auto common = random.below(random.below(static_cast<uint64_t>(classes)) + 1);
      const uint64_t images = 1 + random.below(most);
      for (uint64_t i = 0; i < images; ++i) {
        const auto label = random.below(4) > 0 ? common : random.below(static_cast<uint64_t>(classes));
        labels.push_back(static_cast<int32_t>(label));
        groups.push_back(patient);
      }
    }
  }
  int64_t classes;
  std::vector<int32_t> labels, groups;
};

constexpr uint64_t cases = 300;

TEST(GroupSplit, NoGroupIsOnBothSides) {
  for (uint64_t seed = 0; seed < cases; ++seed) {
    const Patients data(seed);
    for (const auto least : {OfEveryClass::share, OfEveryClass::one_at_least})
      for (const double fraction : {0.05, 0.2, 0.5, 0.9}) {
        const auto held = hold_out_groups(data.labels, data.groups, fraction, least, seed + 1);
        ASSERT_EQ(held.size(), data.labels.size());
        std::map<int32_t, bool> side;
        for (size_t i = 0; i < held.size(); ++i)
          ASSERT_EQ(side.try_emplace(data.groups[i], held[i]).first->second, held[i])
              << "seed " << seed << ", group " << data.groups[i];
      }
  }
}

TEST(GroupSplit, EveryClassKeepsASampleToTrainOn) {
  for (uint64_t seed = 0; seed < cases; ++seed) {
    const Patients data(seed);
    const auto held = hold_out_groups(data.labels, data.groups, 0.9, OfEveryClass::one_at_least, seed);
    std::set<int32_t> all(data.labels.begin(), data.labels.end()), kept;
    for (size_t i = 0; i < held.size(); ++i)
      if (!held[i]) kept.insert(data.labels[i]);
    ASSERT_EQ(kept, all) << "seed " << seed;
  }
}

TEST(GroupSplit, HoldsAboutTheShareOfEveryClassOut) {
  std::vector<int32_t> labels, groups;
  for (int32_t i = 0; i < 1000; ++i) labels.push_back(i < 900 ? 0 : 1), groups.push_back(i / 4);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto held = hold_out_groups(labels, groups, 0.2, OfEveryClass::share, seed);
    EXPECT_NEAR(static_cast<double>(std::count(held.begin(), held.begin() + 900, true)), 180, 2);
    EXPECT_NEAR(static_cast<double>(std::count(held.begin() + 900, held.end(), true)), 20, 2);
  }
}

TEST(GroupSplit, OneAtLeastIsHeldOutWhereTwoGroupsHaveTheClass) {
  const std::vector<int32_t> labels{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2}, groups{0, 1, 2, 3, 4, 5, 5, 5, 5, 6, 6, 7};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto held = hold_out_groups(labels, groups, 0.01, OfEveryClass::one_at_least, seed);
    EXPECT_EQ(std::count(held.begin(), held.begin() + 5, true), 1);
    EXPECT_FALSE(held[5]) << "the larger group of the two";
    EXPECT_TRUE(held[9] && held[10]);
    EXPECT_FALSE(held[11]) << "the only one of its class";
    const auto share = hold_out_groups(labels, groups, 0.01, OfEveryClass::share, seed);
    EXPECT_EQ(std::count(share.begin(), share.end(), true), 0);
  }
}

TEST(GroupSplit, FollowsTheSeed) {
  const Patients data(3);
  const auto split = [&](uint64_t seed) {
    return hold_out_groups(data.labels, data.groups, 0.3, OfEveryClass::share, seed);
  };
  EXPECT_EQ(split(1), split(1));
  EXPECT_NE(split(1), split(2));
}

std::vector<int64_t> all_of(const Patients& data) {
  std::vector<int64_t> samples(data.labels.size());
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<int64_t>(i);
  return samples;
}

TEST(GroupPartition, NoGroupIsWithTwoClients) {
  for (uint64_t seed = 0; seed < cases; ++seed) {
    const Patients data(seed);
    PartitionParams params;
    params.clients = 1 + static_cast<int64_t>(seed % 5);
    params.alpha = seed % 2 == 0 ? 0.1 : 1.0;
    for (const auto kind : {PartitionKind::iid, PartitionKind::dirichlet, PartitionKind::central}) {
      params.kind = kind;
      const auto partition = make_partition(params, all_of(data), data.labels, data.classes, seed, {}, data.groups);
      std::map<int32_t, size_t> client_of;
      std::vector<int64_t> covered;
      for (size_t k = 0; k < partition.size(); ++k) {
        ASSERT_FALSE(partition[k].empty()) << "seed " << seed << ", client " << k;
        for (const int64_t sample : partition[k]) {
          covered.push_back(sample);
          ASSERT_EQ(client_of.try_emplace(data.groups[static_cast<size_t>(sample)], k).first->second, k)
              << "seed " << seed;
        }
      }
      std::sort(covered.begin(), covered.end());
      ASSERT_EQ(covered, all_of(data)) << "each sample once; seed " << seed;
    }
  }
}

TEST(GroupPartition, ClientsOfKindIidAreAboutEqual) {
  const Patients data(7);
  PartitionParams params;
  params.kind = PartitionKind::iid;
  params.clients = 3;
  const auto partition = make_partition(params, all_of(data), data.labels, data.classes, 1, {}, data.groups);
  std::map<int32_t, size_t> sizes;
  for (const int32_t group : data.groups) ++sizes[group];
  size_t largest = 0;
  for (const auto& [group, size] : sizes) largest = std::max(largest, size);
  for (const auto& a : partition)
    for (const auto& b : partition) EXPECT_LE(a.size(), b.size() + largest);
}

TEST(GroupPartition, RefusesWhatWouldShareAGroup) {
  const std::vector<int64_t> samples{0, 1, 2};
  const std::vector<int32_t> labels{0, 1, 1}, groups{0, 0, 1}, hospitals{0, 1, 1};
  PartitionParams params;
  const auto expect = [&](Fault fault, const std::string& fragment) {
    try {
      make_partition(params, samples, labels, 2, 1, hospitals, groups);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), fault);
      EXPECT_NE(std::string_view(error.what()).find(fragment), std::string_view::npos) << error.what();
    }
  };
  params.kind = PartitionKind::user;
  expect(Fault::data, "samples 0 and 1 to clients 0 and 1");
  params.kind = PartitionKind::iid;
  params.clients = 3;
  expect(Fault::data, "3 clients cannot share 2 groups");
  params.samples = 2;
  expect(Fault::usage, "partition.samples");
}

}  // namespace fedgrab::group_split_test
