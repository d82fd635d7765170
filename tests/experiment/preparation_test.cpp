#include "fedgrab/experiment/preparation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/data/scratch_folder.h"

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

/// A table of images of one pixel, whose value says which patient it shows.
class Patients : public testing::Test {
 protected:
  void write(const std::string& name, int first, int count, const std::vector<std::string>& classes) const {
    std::string table = "path,label,patient\n";
    for (int i = 0; i < count; ++i) {
      const int patient = first + i * 7 % (1 + count / 5);
      folder.write(fmt::format("{}.pgm", patient), fmt::format("P2 1 1 255 {}", patient));
      table += fmt::format("{}.pgm,{},P{}\n", patient, classes[static_cast<size_t>(i) % classes.size()], patient);
    }
    folder.write(name, table);
  }
  Settings settings(double validation, uint64_t seed) const {
    Settings settings;
    settings.data.name = "list";
    settings.data.path = folder.path("all.csv");
    settings.data.cache = folder.path("cache");
    settings.data.size = 1;
    settings.data.channels = 1;
    settings.data.validation = validation;
    settings.train.seed = static_cast<int64_t>(seed);
    settings.partition.clients = 3;
    return settings;
  }
  static std::set<int> shown(const Split& split) {
    std::set<int> patients;
    for (int64_t i = 0; i < split.count(); ++i) patients.insert(split.images.at(i)[0]);
    return patients;
  }
  ScratchFolder folder;
};

TEST_F(Patients, AreInOnePartAndWithOneClient) {
  write("all.csv", 1, 90, {"healthy", "ill", "healthy"});
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const Settings chosen = settings(0.25, seed);
    const Preparation p = prepare(chosen);
    std::vector<std::set<int>> parts{shown(p.data.test), shown(p.validation)};
    EXPECT_FALSE(parts[1].empty());
    for (const auto& client : partition_samples(chosen, p)) parts.push_back(shown(copy_samples(p.data.train, client)));
    ASSERT_EQ(parts.size(), 5U);
    size_t counted = 0;
    std::set<int> all;
    for (const auto& part : parts) {
      counted += part.size();
      all.insert(part.begin(), part.end());
    }
    EXPECT_EQ(counted, all.size()) << "seed " << seed << ": a patient is in two parts";
    EXPECT_EQ(all.size(), 19U);
  }
}

TEST_F(Patients, OfTheTailThatIsCutAreNotValidatedOnIfTheyAreTrainedOn) {
  write("all.csv", 1, 90, {"a", "b", "c"});
  Settings chosen = settings(0, 1);
  chosen.longtail.kind = LongTailKind::exponential;
  chosen.longtail.factor = 4;
  chosen.longtail.max = 8;
  chosen.longtail.validation = 4;
  const Preparation p = prepare(chosen);
  const auto trained = shown(copy_samples(p.data.train, p.samples));
  for (const int patient : shown(p.validation)) EXPECT_FALSE(trained.contains(patient)) << patient;
}

TEST_F(Patients, AValidationSplitOfTheSetGoesFirst) {
  write("train.csv", 1, 30, {"a", "b"});
  write("val.csv", 100, 10, {"a", "b"});
  write("test.csv", 200, 10, {"a", "b"});
  for (const double share : {0.0, 0.5}) {
    Settings chosen = settings(share, 1);
    chosen.data.path = folder.path();
    const Preparation p = prepare(chosen);
    EXPECT_EQ(p.samples.size(), 30U);
    EXPECT_EQ(p.validation.count(), 10);
    EXPECT_GE(*shown(p.validation).begin(), 100);
  }
}

}  // namespace fedgrab::preparation_test
