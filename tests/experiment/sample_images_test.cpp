#include "experiment/sample_images.h"

#include <gtest/gtest.h>

#include "fedgrab/core/file.h"
#include "fedgrab/data/image.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::sample_images_test {

/// One pixel each: the label and the logits are what counts.
Split split_of(std::vector<int32_t> labels) {
  std::vector<uint8_t> pixels(labels.size());
  return {Images::own({1, 1, 1}, std::move(pixels)), std::move(labels)};
}

std::vector<int64_t> images_of(const std::vector<SampleChoice>& choices) {
  std::vector<int64_t> images;
  for (const auto& choice : choices) images.push_back(choice.image);
  return images;
}

TEST(SampleImages, AreTheMostConfidentMistakesThenTheLeastConfidentRightAnswers) {
  const Split test = split_of({0, 0, 1, 1, 1});
  const auto logits = torch::tensor({3.F, 0.F, 0.F, 1.F, 2.F, 0.F, 0.F, 4.F, 0.F, 0.5F}).view({5, 2});
  const Predictions predictions{{0, 1, 0, 1, 1}, 0, logits};
  EXPECT_EQ(images_of(choose_samples(predictions, test, 4)), (std::vector<int64_t>{2, 1, 4, 0}));
  const auto first = choose_samples(predictions, test, 1);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].answer, 0);
  EXPECT_NEAR(first[0].confidence, 1 / (1 + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(choose_samples(predictions, test, 100).size(), 5U);
}

TEST(SampleImages, WithoutANumberForAPredictionAreLeftOut) {
  const Predictions predictions{{0, 0}, 0, torch::tensor({NAN, 0.F, 1.F, 0.F}).view({2, 2})};
  EXPECT_EQ(images_of(choose_samples(predictions, split_of({1, 1}), 5)), (std::vector<int64_t>{1}));
}

std::string decoded(const std::string& base64_text) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : base64_text) {
    if (c == '=') break;
    bits = bits << 6U | static_cast<uint32_t>(digits.find(c));
    if ((held += 6) >= 8) bytes += static_cast<char>(bits >> static_cast<uint32_t>(held -= 8));
  }
  return bytes;
}

Image thumbnail_of(const Split& test) {
  const ScratchFolder folder;
  write_atomically(folder.path("a.png"), decoded(sample_images({{0, 0, 1}}, test).at(0).png));
  return read_image(folder.path("a.png"));
}

TEST(SampleImages, AreWhatAModelSeesWithoutTheMargin) {
  std::vector<uint8_t> stored(3 * 4 * 5);
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<uint8_t>(i);
  Split test{Images::own({3, 2, 3}, stored), {0}};
  test.images = {{3, 2, 3}, test.images.bytes, test.images.owner, 1};
  const Image image = thumbnail_of(test);
  EXPECT_EQ(image.shape, (ImageShape{3, 2, 3}));
  EXPECT_EQ(image.bytes, (std::vector<uint8_t>{6, 7, 8, 11, 12, 13, 26, 27, 28, 31, 32, 33, 46, 47, 48, 51, 52, 53}));
}

TEST(SampleImages, AreSmall) {
  const Split test{Images::own({1, 100, 200}, std::vector<uint8_t>(20'000, 9)), {0}};
  EXPECT_EQ(thumbnail_of(test).shape, (ImageShape{1, 32, 64}));
}

}  // namespace fedgrab::sample_images_test
