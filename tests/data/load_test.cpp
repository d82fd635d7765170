#include "fedgrab/data/load.h"

#include "scratch_folder.h"

namespace fedgrab::load_test {

/// Four grey images in two classes.
class Load : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a/1.pgm", "a/2.pgm", "b/1.pgm", "b/2.pgm"}) folder.write(name, "P2 1 1 255 9");
    params.name = "folder";
    params.path = folder.path();
  }
  void expect_usage_error(const std::vector<std::string>& fragments) const {
    expect_error(
        Fault::usage, [&] { load_dataset(params, 0); }, fragments);
  }

  ScratchFolder folder;
  DataParams params;
};

TEST_F(Load, KeepsWhatTheDataSetSays) {
  const Dataset data = load_dataset(params, 0);
  EXPECT_EQ(data.classes(), 2);
  EXPECT_EQ(data.augmentation.operations.to_text(), "crop,flip");
  EXPECT_EQ(leading_crop_and_flip(data.augmentation.operations).crop_padding, 4);
  EXPECT_EQ(data.normalisation.mean, std::vector<float>{0.5F});
}

TEST_F(Load, PassesTheReaderItsParameters) {
  params.size = 16;
  params.channels = 3;
  EXPECT_EQ(load_dataset(params, 0).shape(), (ImageShape{3, 16, 16}));
}

TEST_F(Load, OverridesAugmentation) {
  const auto chosen = [&](const std::vector<std::string>& names) {
    params.augment = names;
    return load_dataset(params, 0).augmentation.operations.to_text();
  };
  EXPECT_EQ(chosen({}), "");
  EXPECT_EQ(chosen({"none"}), "");
  EXPECT_EQ(chosen({"crop"}), "crop");
  EXPECT_EQ(chosen({"flip"}), "flip");
  EXPECT_EQ(chosen({"crop+flip"}), "crop,flip") << "as version 0.1 wrote it";
  EXPECT_EQ(chosen({"resized-crop+flip"}), "resized-crop,flip");
  EXPECT_EQ(chosen({"crop", "flip", "trivial-augment", "cutout"}), "crop,flip,trivial-augment,cutout");
  EXPECT_EQ(chosen({"cutout", "flip"}), "cutout,flip");
  EXPECT_EQ(chosen({"auto", "cutout"}), "crop,flip,cutout");
  EXPECT_EQ(leading_crop_and_flip(load_dataset(params, 0).augmentation.operations).crop_padding, 4);
}

TEST_F(Load, RefusesAugmentationsWithAReason) {
  const auto expect_refused = [&](const std::vector<std::string>& names, const std::vector<std::string>& fragments) {
    params.augment = names;
    expect_usage_error(fragments);
  };
  expect_refused({"mirror"}, {"data.augment", "mirror", "trivial-augment"});
  expect_refused({"crop", "flip", "crop"}, {"data.augment", "crop", "at most"});
  expect_refused({"auto", "flip"}, {"data.augment", "flip", "at most"});
  expect_refused({"crop", "resized-crop"}, {"data.augment", "resized-crop"});
  expect_refused({"cutout", "resized-crop"}, {"data.augment", "resized-crop", "first"});
  expect_refused(std::vector<std::string>(9, "cutout"), {"data.augment", "at most 8"});
}

TEST_F(Load, GivesCutoutItsSideAndTheMeanColour) {
  const auto cutout = [&] { return load_dataset(params, 0).augmentation.operations.items[0]; };
  params.augment = {"cutout"};
  EXPECT_EQ(cutout().value, 16) << "half of the images";
  params.cutout = 5;
  params.mean = {0.25};
  EXPECT_EQ(cutout().value, 5);
  EXPECT_EQ(cutout().fill[0], 64);
}

TEST_F(Load, OverridesNormalisationChannelByChannel) {
  params.mean = {0.25};
  params.std = {0.75};
  const Dataset data = load_dataset(params, 0);
  EXPECT_EQ(data.normalisation.mean, std::vector<float>{0.25F});
  EXPECT_EQ(data.normalisation.std, std::vector<float>{0.75F});

  params.mean = {0.1, 0.2, 0.3};
  expect_usage_error({"data.mean", "3 values", "1 channels"});
  params.mean = {0};
  params.std = {0};
  expect_usage_error({"data.std", "0"});
}

TEST_F(Load, AsksForThePath) {
  for (const char* name : {"folder", "idx", "cifar10", "cifar100"}) {
    params.name = name;
    params.path = "";
    expect_usage_error({"data.path", name});
  }
  params.name = "imagenet";
  expect_usage_error({"data.name", "imagenet"});
}

}  // namespace fedgrab::load_test
