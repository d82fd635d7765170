#include "fedgrab/experiment/preparation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace fedgrab::preparation_test {

Settings small(double validation) {
  Settings settings;
  settings.data.per_class = 20;
  settings.data.test_per_class = 2;
  settings.data.validation = validation;
  settings.longtail.factor = 10;
  settings.partition.clients = 3;
  return settings;
}

TEST(Preparation, CutsTheTailAndGroupsTheClasses) {
  const Preparation p = prepare(small(0));
  EXPECT_EQ(p.counts.front(), 20);
  EXPECT_EQ(p.counts.back(), 2);
  EXPECT_EQ(p.validation.count(), 0);
  EXPECT_EQ(p.groups.many.size() + p.groups.med.size() + p.groups.few.size(), 10U);
}

TEST(Preparation, HoldsTheSameShareOfEveryClassOut) {
  const Preparation all = prepare(small(0)), p = prepare(small(0.25));
  for (size_t c = 0; c < 10; ++c) {
    const auto held = std::count(p.validation.labels.begin(), p.validation.labels.end(), static_cast<int32_t>(c));
    EXPECT_EQ(held, all.counts[c] / 4) << "class " << c;
    EXPECT_EQ(p.counts[c] + held, all.counts[c]) << "class " << c;
  }
}

TEST(Preparation, HeldOutImagesAreNotTrainedOn) {
  const Preparation all = prepare(small(0)), p = prepare(small(0.25));
  std::multiset<std::string> before, after;
  const auto image = [](const Images& images, int64_t i) {
    const auto bytes = images.at(i);
    return std::string(bytes.begin(), bytes.end());
  };
  for (const int64_t i : all.samples) before.insert(image(all.data.train.images, i));
  for (const int64_t i : p.samples) after.insert(image(p.data.train.images, i));
  for (int64_t i = 0; i < p.validation.count(); ++i) after.insert(image(p.validation.images, i));
  EXPECT_EQ(before, after);  // the two parts make up the whole, nothing twice
}

TEST(Preparation, AClassKeepsOneImageToTrainOn) {
  const Preparation p = prepare(small(0.9));
  EXPECT_EQ(*std::min_element(p.counts.begin(), p.counts.end()), 1);
}

TEST(Preparation, ClientsTogetherHoldEveryTrainingSampleOnce) {
  const Settings settings = small(0.25);
  const Preparation p = prepare(settings);
  std::vector<int64_t> held;
  for (const auto& client : partition_samples(settings, p)) held.insert(held.end(), client.begin(), client.end());
  std::sort(held.begin(), held.end());
  EXPECT_EQ(held, p.samples);
}

TEST(Preparation, CentralisedIsOneClientWithEverything) {
  Settings settings = small(0);
  settings.partition.kind = PartitionKind::central;
  const Preparation p = prepare(settings);
  EXPECT_EQ(partition_samples(settings, p), (Partition{p.samples}));
}

}  // namespace fedgrab::preparation_test
