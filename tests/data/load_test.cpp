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
  EXPECT_EQ(data.augmentation.crop_padding, 4);
  EXPECT_TRUE(data.augmentation.flip);
  EXPECT_EQ(data.normalisation.mean, std::vector<float>{0.5F});
}

TEST_F(Load, PassesTheReaderItsParameters) {
  params.size = 16;
  params.channels = 3;
  EXPECT_EQ(load_dataset(params, 0).shape(), (ImageShape{3, 16, 16}));
}

TEST_F(Load, OverridesAugmentation) {
  const auto chosen = [&](const char* name) {
    params.augment = name;
    const Augmentation augmentation = load_dataset(params, 0).augmentation;
    return std::pair(augmentation.crop_padding, augmentation.flip);
  };
  EXPECT_EQ(chosen("none"), std::pair(int64_t{0}, false));
  EXPECT_EQ(chosen("crop"), std::pair(int64_t{4}, false));
  EXPECT_EQ(chosen("flip"), std::pair(int64_t{0}, true));
  EXPECT_EQ(chosen("crop+flip"), std::pair(int64_t{4}, true));
  params.augment = "mirror";
  expect_usage_error({"data.augment", "mirror"});
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
