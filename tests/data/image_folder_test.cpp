#include <fmt/format.h>

#include <set>

#include "fedgrab/data/load.h"
#include "scratch_folder.h"

namespace fedgrab::image_folder_test {

std::string grey(int value) { return fmt::format("P2 1 1 255 {}", value); }
std::string colour(int red, int green, int blue) { return fmt::format("P3 1 1 255 {} {} {}", red, green, blue); }

/// The first pixel of each image, which tells the 1 x 1 files of these tests apart.
std::vector<int> firsts(const Split& split) {
  std::vector<int> values;
  for (int64_t i = 0; i < split.count(); ++i) values.push_back(split.images.at(i)[0]);
  return values;
}

void expect_refused(const ScratchFolder& folder, const std::vector<std::string>& fragments) {
  expect_error(
      Fault::data, [&] { read_image_folder(folder.path(), 0, 0, 0.2, 0); }, fragments);
}

TEST(ImageFolder, ReadsTrainAndTestInOrderOfNames) {
  const ScratchFolder folder;
  folder.write("train/zebra/1.pgm", grey(30));
  folder.write("train/ant/b.pgm", grey(20));
  folder.write("train/ant/a.pgm", grey(10));
  folder.write("train/ant/notes.txt", "not an image");
  folder.write("train/yak/1.pgm", grey(40));
  folder.write("test/zebra/1.pgm", grey(50));
  folder.write("test/ant/1.pgm", grey(60));
  const Dataset data = read_image_folder(folder.path(), 16, 0, 0.2, 0);
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"ant", "yak", "zebra"}));
  EXPECT_EQ(firsts(data.train), (std::vector<int>{10, 20, 40, 30}));
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{0, 0, 1, 2}));
  EXPECT_EQ(firsts(data.test), (std::vector<int>{60, 50}));
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(data.shape(), (ImageShape{1, 16, 16}));
  EXPECT_EQ(data.test.images.shape, (ImageShape{1, 16, 16}));
  EXPECT_FLOAT_EQ(data.normalisation.mean.at(0), 0.5F);
  EXPECT_FLOAT_EQ(data.normalisation.std.at(0), 0.25F);
  EXPECT_EQ(data.augmentation.operations.to_text(), "crop,flip");
  EXPECT_EQ(leading_crop_and_flip(data.augmentation.operations).crop_padding, 2);
  EXPECT_FALSE(data.balanced);
}

class SeededSplit : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 20; ++i) folder.write(fmt::format("cat/{:02}.pgm", i), grey(i));
    for (int i = 0; i < 2; ++i) folder.write(fmt::format("dog/{}.pgm", i), grey(100 + i));
  }
  Dataset read(double test_fraction, uint64_t seed) const {
    return read_image_folder(folder.path(), 8, 0, test_fraction, seed);
  }
  ScratchFolder folder;
};

TEST_F(SeededSplit, KeepsTheShareOfEachClassAndUsesEveryImageOnce) {
  const Dataset data = read(0.25, 1);
  EXPECT_EQ(class_counts(data.train.labels, 2), (std::vector<int64_t>{15, 1}));
  EXPECT_EQ(class_counts(data.test.labels, 2), (std::vector<int64_t>{5, 1}));
  std::multiset<int> seen;
  for (const Split* split : {&data.train, &data.test})
    for (const int value : firsts(*split)) seen.insert(value);
  std::multiset<int> all{100, 101};
  for (int i = 0; i < 20; ++i) all.insert(i);
  EXPECT_EQ(seen, all);
}

TEST_F(SeededSplit, LeavesOneImageForEachPart) {
  EXPECT_EQ(class_counts(read(0.01, 1).test.labels, 2), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(class_counts(read(0.9, 1).train.labels, 2), (std::vector<int64_t>{2, 1}));
}

TEST_F(SeededSplit, FollowsTheSeed) {
  EXPECT_EQ(firsts(read(0.25, 1).test), firsts(read(0.25, 1).test));
  EXPECT_NE(firsts(read(0.25, 1).test), firsts(read(0.25, 2).test));
}

TEST_F(SeededSplit, TrainsWithALoneImage) {
  folder.write("eel/1.pgm", grey(1));
  EXPECT_EQ(class_counts(read(0.9, 1).train.labels, 3).back(), 1);
  EXPECT_EQ(class_counts(read(0.9, 1).test.labels, 3).back(), 0);
}

TEST(ImageFolder, HasSomethingToTestOn) {
  const ScratchFolder folder;
  folder.write("ant/1.pgm", grey(1));
  folder.write("eel/1.pgm", grey(1));
  expect_refused(folder, {folder.path(), "no class holds two images"});
}

TEST(ImageFolder, IsColourUnlessEveryImageIsGrey) {
  const ScratchFolder folder;
  folder.write("train/a/1.pgm", grey(7));
  folder.write("train/b/1.pgm", grey(8));
  folder.write("test/a/1.ppm", colour(255, 0, 0));
  const Dataset data = read_image_folder(folder.path(), 0, 0, 0.2, 0);
  EXPECT_EQ(data.shape(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(data.train.images.at(1)[0], 8);
  EXPECT_EQ(data.train.images.at(1)[2048], 8);
  EXPECT_EQ(data.test.images.at(0)[0], 255);
  EXPECT_EQ(data.test.images.at(0)[1024], 0);
  EXPECT_FLOAT_EQ(data.normalisation.mean.at(0), 0.485F);

  const Dataset forced = read_image_folder(folder.path(), 0, 1, 0.2, 0);
  EXPECT_EQ(forced.shape(), (ImageShape{1, 32, 32}));
  EXPECT_EQ(forced.test.images.at(0)[0], 76);
  expect_error(Fault::usage, [&] { read_image_folder(folder.path(), 0, 2, 0.2, 0); }, {"data.channels", "2"});
}

TEST(ImageFolder, GreyCanBeReadAsColour) {
  const ScratchFolder folder;
  for (const char* name : {"a/1.pgm", "a/2.pgm", "b/1.pgm", "b/2.pgm"}) folder.write(name, grey(9));
  EXPECT_EQ(read_image_folder(folder.path(), 8, 3, 0.5, 0).shape(), (ImageShape{3, 8, 8}));
}

TEST(ImageFolder, MayHaveAClassCalledTrain) {
  const ScratchFolder folder;
  for (const char* name : {"car/1.pgm", "car/2.pgm", "train/1.pgm", "train/2.pgm"}) folder.write(name, grey(1));
  EXPECT_EQ(read_image_folder(folder.path(), 8, 0, 0.5, 0).class_names, (std::vector<std::string>{"car", "train"}));
}

TEST(ImageFolder, ReadsAValidationFolder) {
  const ScratchFolder folder;
  folder.write("train/a/1.pgm", grey(1));
  folder.write("train/b/1.pgm", grey(2));
  folder.write("val/b/1.pgm", grey(3));
  folder.write("test/a/1.pgm", grey(4));
  const Dataset data = read_image_folder(folder.path(), 8, 0, 0.2, 0);
  EXPECT_EQ(firsts(data.train), (std::vector<int>{1, 2}));
  EXPECT_EQ(firsts(data.validation), (std::vector<int>{3}));
  EXPECT_EQ(data.validation.labels, (std::vector<int32_t>{1}));
  EXPECT_EQ(firsts(data.test), (std::vector<int>{4}));
  folder.write("val/c/1.pgm", grey(3));
  expect_refused(folder, {folder.path("val/c"), "remove it from val/"});
}

TEST(ImageFolder, IgnoresHiddenFolders) {
  const ScratchFolder folder;
  for (const char* name : {"a/1.pgm", "a/2.pgm", "b/1.pgm", "b/2.pgm", ".cache/1.pgm"}) folder.write(name, grey(1));
  EXPECT_EQ(read_image_folder(folder.path(), 8, 0, 0.5, 0).class_names, (std::vector<std::string>{"a", "b"}));
}

TEST(ImageFolder, NamesTheUnreadableImage) {
  const ScratchFolder folder;
  for (const char* name : {"a/1.pgm", "a/2.pgm", "b/1.pgm"}) folder.write(name, grey(1));
  const auto broken = folder.write("b/2.png", "\x89PNG and nothing else");
  expect_refused(folder, {broken, "PNG"});
}

TEST(ImageFolder, NamesTheEmptyClass) {
  const ScratchFolder folder;
  for (const char* name : {"a/1.pgm", "a/2.pgm", "b/1.pgm", "b/2.pgm"}) folder.write(name, grey(1));
  folder.write("c/readme.txt", "no image here");
  expect_refused(folder, {folder.path("c"), "no images"});
}

TEST(ImageFolder, NeedsClasses) {
  const ScratchFolder folder;
  expect_refused(folder, {folder.path(), "no class folders"});
  expect_error(Fault::data, [&] { read_image_folder(folder.path("nowhere"), 0, 0, 0.2, 0); },
               {folder.path("nowhere"), "not a folder"});
}

TEST(ImageFolder, RefusesATestClassWithoutTrainingImages) {
  const ScratchFolder folder;
  for (const char* name : {"train/a/1.pgm", "train/b/1.pgm", "test/a/1.pgm", "test/new/1.pgm"})
    folder.write(name, grey(1));
  expect_refused(folder, {folder.path("test/new"), "without training images"});
}

TEST(ImageFolder, NeedsATestFolderBesideTrain) {
  const ScratchFolder folder;
  folder.write("train/a/1.pgm", grey(1));
  folder.write("train/b/1.pgm", grey(1));
  expect_refused(folder, {folder.path(), "no test/"});
  std::filesystem::create_directory(folder.path("test"));
  expect_refused(folder, {folder.path("test"), "no class folders"});
}

}  // namespace fedgrab::image_folder_test
