#include "data/listed_images.h"

#include <fmt/format.h>

#include <set>

#include "fedgrab/core/random.h"
#include "fedgrab/data/partition.h"
#include "scratch_folder.h"

namespace fedgrab::listed_images_test {

class ListedImages : public testing::Test {
 protected:
  void SetUp() override {
    params.name = "list";
    params.path = folder.path();
    params.size = 8;
    params.cache = folder.path("cache");
  }
  void image(const std::string& name, int value) const {
    folder.write(name, fmt::format("P3 1 1 255 {} {} {}", value, value, value));
  }
  Dataset load() const { return load_dataset(params, 1); }
  static std::vector<int> firsts(const Split& split) {
    std::vector<int> values;
    for (int64_t i = 0; i < split.count(); ++i) values.push_back(split.images.at(i)[0]);
    return values;
  }

  ScratchFolder folder;
  DataParams params;
};

TEST_F(ListedImages, ReadsImageNetLt) {
  params.name = "imagenet-lt";
  params.path = folder.path("lists");
  params.images = folder.path("images");
  params.size = 14;
  folder.write("lists/ImageNet_LT_train.txt", "train/n2/a.JPEG 10\ntrain/n1/b.JPEG 2\ntrain/n1/c.JPEG 2\n");
  folder.write("lists/ImageNet_LT_test.txt", "val/d.JPEG 10\n");
  for (const auto& [name, value] : {std::pair("train/n2/a", 1), {"train/n1/b", 2}, {"train/n1/c", 3}, {"val/d", 4}})
    image(fmt::format("images/{}.JPEG", name), value);
  const Dataset data = load();
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{1, 0, 0}));
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{1}));
  EXPECT_EQ(firsts(data.train), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(firsts(data.test), (std::vector<int>{4}));
  EXPECT_EQ(data.shape(), (ImageShape{3, 14, 14}));
  EXPECT_EQ(data.train.images.stored(), (ImageShape{3, 16, 16}));
  EXPECT_EQ(data.augmentation.operations.to_text(), "resized-crop,flip");
  EXPECT_TRUE(data.clients.empty());
  EXPECT_FALSE(data.balanced);
}

TEST_F(ListedImages, ReadsTheUsersOfINaturalist) {
  params.name = "inaturalist-user";
  folder.write("federated_train_user_120k.csv", "user_id,image_id,class\n90,aa,5\n7,bb,3\n90,cc,3\n");
  folder.write("test.csv", "image_id,class\ndd,3\n");
  image("train_val_images/Aves/aa.jpg", 1);
  image("train_val_images/Aves/Corvus corax/bb.jpg", 2);
  image("train_val_images/Fungi/cc.jpg", 3);
  image("train_val_images/dd.jpg", 4);
  const Dataset data = load();
  EXPECT_EQ(firsts(data.train), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(data.clients, (std::vector<int32_t>{1, 0, 1}));
  PartitionParams partition;
  partition.kind = PartitionKind::user;
  EXPECT_EQ(make_partition(partition, std::vector<int64_t>{0, 1, 2}, data.train.labels, 2, 0, data.clients),
            (Partition{{1}, {0, 2}}));
}

TEST_F(ListedImages, ReadsAHospitalsTable) {
  std::string table = "Path;Class;Client\n";
  for (int i = 0; i < 10; ++i) {
    table += fmt::format("scans/{0}.ppm;{1};Ward {2}\n", i, i < 6 ? "healthy" : "ill", i % 2);
    image(fmt::format("scans/{}.ppm", i), i + 1);
  }
  params.path = folder.write("all.csv", table);
  params.test_fraction = 0.5;
  const Dataset data = load();
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"healthy", "ill"}));
  EXPECT_EQ(class_counts(data.train.labels, 2), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(class_counts(data.test.labels, 2), (std::vector<int64_t>{3, 2}));
  for (size_t i = 0; i < data.clients.size(); ++i) EXPECT_EQ(data.clients[i], (firsts(data.train)[i] - 1) % 2);
}

/// Nobody is learnt and tested: over many tables and seeds, whatever classes a patient's images have.
TEST_F(ListedImages, APatientIsOnOneSide) {
  params.test_fraction = 0.3;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed, Purpose::synthetic);
    std::string table = "path,label,patient\n";
    const uint64_t patients = 4 + random.below(30);
    for (int i = 0; i < 120; ++i)
      table += fmt::format("{}.ppm,{},P{}\n", i, random.below(1 + random.below(4)), random.below(patients));
    params.path = folder.write("all.csv", table);
    const Listing listing = read_listing(params, seed);
    ASSERT_EQ(listing.train.groups.size() + listing.test.groups.size(), 120U);
    const std::set<int32_t> learnt(listing.train.groups.begin(), listing.train.groups.end());
    for (const int32_t group : listing.test.groups) ASSERT_FALSE(learnt.contains(group)) << "seed " << seed;
  }
}

TEST_F(ListedImages, RefusesAPatientInTwoLists) {
  folder.write("train.csv", "path,label,patient\na.ppm,x,1\nb.ppm,y,2\n");
  folder.write("test.csv", "path,label,patient\nc.ppm,x,2\n");
  expect_error(Fault::data, [&] { read_listing(params, 1); }, {"group 2 is in the training list and in the test list"});
  folder.write("test.csv", "path,label\nc.ppm,x\n");
  expect_error(Fault::data, [&] { read_listing(params, 1); }, {"the test list none"});
  folder.write("test.csv", "path,label,patient\nc.ppm,x,4\n");
  folder.write("val.csv", "path,label,patient\nc.ppm,x,1\n");
  expect_error(Fault::data, [&] { read_listing(params, 1); }, {"group 1", "validation list"});
}

TEST_F(ListedImages, ReadsAValidationList) {
  folder.write("train.csv", "path,label,patient\na.ppm,x,7\nbad.ppm,x,8\nb.ppm,y,9\n");
  folder.write("test.csv", "path,label,patient\nc.ppm,x,10\n");
  folder.write("validation.txt", "path,label,patient\nd.ppm,y,11\n");
  for (const auto& [name, value] : {std::pair("a", 1), {"b", 2}, {"c", 3}, {"d", 4}})
    image(fmt::format("{}.ppm", name), value);
  folder.write("bad.ppm", "P6");
  params.bad = BadImage::skip;
  const Dataset data = load();
  EXPECT_EQ(firsts(data.validation), (std::vector<int>{4}));
  EXPECT_EQ(data.validation.labels, (std::vector<int32_t>{1}));
  EXPECT_EQ(data.groups, (std::vector<int32_t>{0, 2})) << "7 and 9, without that of the bad file";
}

TEST_F(ListedImages, LevelsMakeAnotherCache) {
  folder.write("train.csv", "path,label\na.pgm,x\na.pgm,y\n");
  folder.write("test.csv", "path,label\na.pgm,y\n");
  folder.write("a.pgm", "P2 1 1 65535 1000");
  EXPECT_EQ(firsts(load().train), (std::vector<int>{4, 4}));
  params.levels = {0, 2000};
  EXPECT_EQ(firsts(load().train), (std::vector<int>{128, 128}));
  params.levels = {5, 5};
  expect_error(Fault::usage, [&] { load(); }, {"data.levels", "5,5"});
}

TEST_F(ListedImages, FindsAnImageByItsIdentity) {
  folder.write("train.csv", "path,label\na/1,x\nb/1,y\n1.2.3,y\n");
  folder.write("test.csv", "path,label\n2,x\n");
  for (const auto& [name, value] : {std::pair("a/1", 1), {"b/1", 2}, {"c/1.2.3", 3}, {"d/2", 4}})
    image(fmt::format("{}.ppm", name), value);
  EXPECT_EQ(firsts(load().train), (std::vector<int>{1, 2, 3}));
  image("e/2.ppm", 5);
  expect_error(Fault::data, [&] { load(); }, {"2: is the name of", "d/2.ppm", "e/2.ppm"});
}

TEST_F(ListedImages, ReadsATrainAndATestList) {
  folder.write("train.csv", "path,label\na.ppm,x\nb.ppm,y\n");
  folder.write("test.txt", "c.ppm y\n");
  for (const char* name : {"a.ppm", "b.ppm", "c.ppm"}) image(name, 7);
  EXPECT_EQ(load().test.labels, (std::vector<int32_t>{1}));
  std::filesystem::remove(folder.path("test.txt"));
  expect_error(Fault::data, [&] { load(); }, {folder.path("test.csv"), "no such list"});
}

TEST_F(ListedImages, LeavesBadFilesOutOfLabelsAndClients) {
  folder.write("train.csv", "path,label,client\na.ppm,x,1\nbad.ppm,x,2\nb.ppm,y,3\nc.ppm,y,4\n");
  folder.write("test.csv", "path,label\na.ppm,x\n");
  for (const auto& [name, value] : {std::pair("a", 1), {"b", 2}, {"c", 3}}) image(fmt::format("{}.ppm", name), value);
  folder.write("bad.ppm", "P6");
  expect_error(Fault::data, [&] { load(); }, {folder.path("bad.ppm")});
  params.bad = BadImage::skip;
  const Dataset data = load();
  EXPECT_EQ(firsts(data.train), (std::vector<int>{1, 3, 2}));
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(data.clients, (std::vector<int32_t>{0, 3, 2}));
  EXPECT_EQ(data.skipped, (std::vector<std::string>{folder.path("bad.ppm")}));
}

TEST_F(ListedImages, SaysWhatIsWrong) {
  folder.write("train.csv", "path,label\na.ppm,x\nb.ppm,y\n");
  folder.write("test.csv", "path,label\nc.ppm,z\n");
  expect_error(Fault::data, [&] { load(); }, {"c.ppm", "class z", "no training images"});
  folder.write("test.csv", "path,label\nc.ppm,y\n");
  expect_error(Fault::data, [&] { load(); }, {".ppm", "no such file"});
  params.cache_size = 9;
  expect_error(Fault::usage, [&] { load(); }, {"data.cache_size", "9"});
  params.cache_size = 0;
  params.name = "places-lt";
  expect_error(Fault::data, [&] { load(); }, {"Places_LT_train.txt", "places2.csail.mit.edu"});
}

}  // namespace fedgrab::listed_images_test
