#include "fedgrab/data/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include "fedgrab/data/image.h"

namespace fedgrab::batch_test {

const Normalisation plain{{0, 0}, {1.0F / 255, 1.0F / 255}};  // a byte comes out as its own value

/// Two 2-channel images of 2 × 3: the first holds 1..12, the second 101..112.
Images small_images() {
  std::vector<uint8_t> bytes;
  for (const int start : {1, 101})
    for (int i = 0; i < 12; ++i) bytes.push_back(static_cast<uint8_t>(start + i));
  return Images::own({2, 2, 3}, bytes);
}

std::vector<float> sample(int64_t i, const Placement& placement, const Normalisation& normalisation = plain) {
  std::vector<float> out(12, -1);
  write_sample(small_images(), i, placement, normalisation, out.data());
  return out;
}

void expect_values(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-4) << "at " << i;
}

TEST(WriteSample, CopiesTheImage) {
  expect_values(sample(0, {}), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_values(sample(1, {}), {101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112});
}

TEST(WriteSample, CropsWithBlackOutside) {
  expect_values(sample(0, {1, 0, false}), {4, 5, 6, 0, 0, 0, 10, 11, 12, 0, 0, 0});
  expect_values(sample(0, {-1, 0, false}), {0, 0, 0, 1, 2, 3, 0, 0, 0, 7, 8, 9});
  expect_values(sample(0, {0, 1, false}), {2, 3, 0, 5, 6, 0, 8, 9, 0, 11, 12, 0});
  expect_values(sample(0, {0, -2, false}), {0, 0, 1, 0, 0, 4, 0, 0, 7, 0, 0, 10});
}

TEST(WriteSample, MirrorsTheCrop) {
  expect_values(sample(0, {0, 0, true}), {3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10});
  expect_values(sample(0, {0, 1, true}), {0, 3, 2, 0, 6, 5, 0, 9, 8, 0, 12, 11});
  expect_values(sample(0, {0, -1, true}), {2, 1, 0, 5, 4, 0, 8, 7, 0, 11, 10, 0});
}

TEST(WriteSample, AcceptsCropsBesideTheImage) {
  for (const int64_t far : {-9, -3, 3, 9})
    for (const bool flip : {false, true}) {
      expect_values(sample(0, {0, far, flip}), std::vector<float>(12, 0));
      expect_values(sample(0, {far, 0, flip}), std::vector<float>(12, 0));
    }
}

TEST(WriteSample, NormalisesEachChannelAndTheBorderToo) {
  const Normalisation normalisation{{0.5F, 0.2F}, {0.25F, 0.1F}};
  const auto out = sample(0, {0, 1, false}, normalisation);
  EXPECT_FLOAT_EQ(out[0], (2 / 255.0F - 0.5F) / 0.25F);
  EXPECT_FLOAT_EQ(out[2], -0.5F / 0.25F);
  EXPECT_FLOAT_EQ(out[6], (8 / 255.0F - 0.2F) / 0.1F);
  EXPECT_FLOAT_EQ(out[8], -0.2F / 0.1F);
}

TEST(Place, ReadsItsWords) {
  const CropAndFlip both{4, true};
  const auto at = [&](uint32_t a, uint32_t b, uint32_t c) {
    const Placement p = place(both, small_images(), {a, b, c, 77});
    return std::tuple{p.dy, p.dx, p.flip};
  };
  EXPECT_EQ(at(0, 8, 0), (std::tuple{-4, 4, false}));
  EXPECT_EQ(at(9 + 4, 18 + 5, 3), (std::tuple{0, 1, true}));
  EXPECT_EQ(at(0xffffffff, 0, 2), (std::tuple{int64_t{0xffffffff % 9} - 4, -4, false}));
}

TEST(Place, DoesOnlyWhatIsAsked) {
  std::set<std::pair<int64_t, int64_t>> crops;
  for (uint32_t i = 0; i < 500; ++i) {
    const PhiloxBlock words = Random(1, Purpose::augment).block(i);
    const Placement none = place({0, false}, small_images(), words);
    EXPECT_TRUE(none.dy == 0 && none.dx == 0 && !none.flip);
    EXPECT_FALSE(place({2, false}, small_images(), words).flip);
    crops.insert({place({1, true}, small_images(), words).dy, place({1, true}, small_images(), words).dx});
  }
  EXPECT_EQ(crops.size(), 9U);
}

TEST(WriteBatch, WritesSamplesOneAfterTheOther) {
  const std::vector<int64_t> indices{1, 0, 1};
  std::vector<float> out(36);
  write_batch(small_images(), indices, plain, out.data());
  for (size_t k = 0; k < indices.size(); ++k)
    EXPECT_EQ(std::vector<float>(out.begin() + 12 * k, out.begin() + 12 * (k + 1)), sample(indices[k], {}));
}

TEST(WriteBatch, AugmentsByPositionNotByBatch) {
  const Images images = small_images();
  const Augmentation both{crop(1), flip()};
  const Random random(3, Purpose::augment, 1, 2);
  const std::vector<int64_t> indices{0, 1, 1, 0, 1};
  std::vector<float> whole(60), parts(60);
  write_batch(images, indices, both, plain, random, 10, whole.data());
  write_batch(images, std::span(indices).first(2), both, plain, random, 10, parts.data());
  write_batch(images, std::span(indices).subspan(2), both, plain, random, 12, parts.data() + 24);
  EXPECT_EQ(whole, parts);
  for (size_t k = 0; k < indices.size(); ++k)
    EXPECT_EQ(std::vector<float>(whole.begin() + 12 * k, whole.begin() + 12 * (k + 1)),
              sample(indices[k], place({1, true}, small_images(), random.block(static_cast<uint32_t>(10 + k)))));
}

TEST(WriteSample, FindsPixelsInTheMargin) {
  std::vector<uint8_t> bytes(25);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  Images images = Images::own({1, 3, 3}, bytes);
  images.margin = 1;
  ASSERT_EQ(images.count(), 1);
  const auto crop = [&](const Placement& placement) {
    std::vector<float> out(9);
    write_sample(images, 0, placement, {{0}, {1.0F / 255}}, out.data());
    return out;
  };
  expect_values(crop({}), {7, 8, 9, 12, 13, 14, 17, 18, 19});
  expect_values(crop({-1, 1, false}), {3, 4, 5, 8, 9, 10, 13, 14, 15});
  expect_values(crop({1, -1, true}), {13, 12, 11, 18, 17, 16, 23, 22, 21});
  expect_values(crop({0, 2, false}), {9, 10, 0, 14, 15, 0, 19, 20, 0});
  expect_values(crop({0, 2, true}), {0, 10, 9, 0, 15, 14, 0, 20, 19});
}

std::string reference(const std::string& name) { return FEDGRAB_TEST_DATA "/data/reference/" + name; }

/// The square that a cache would hold, seen at `side` pixels.
Images cached_square(int64_t side) {
  Image square = centre_square(read_image(reference("photo.jpg")), 64);
  Images images = Images::own({3, side, side}, std::move(square.bytes));
  images.margin = (64 - side) / 2;
  return images;
}

double mean_difference(const Image& expected, const std::function<float(size_t)>& value) {
  double sum = 0;
  for (size_t i = 0; i < expected.bytes.size(); ++i) sum += std::abs(value(i) - static_cast<float>(expected.bytes[i]));
  return sum / static_cast<double>(expected.bytes.size());
}

void expect_as_pillow(const std::string& name, int64_t side, const Placement& placement) {
  const Image expected = read_image(reference(name));
  ASSERT_EQ(expected.shape, (ImageShape{3, side, side}));
  std::vector<float> out(expected.bytes.size());
  const Images images = cached_square(side);
  ASSERT_EQ(images.count(), 1);
  write_sample(images, 0, placement, {{0, 0, 0}, {1.0F / 255, 1.0F / 255, 1.0F / 255}}, out.data());
  EXPECT_LT(mean_difference(expected, [&](size_t i) { return out[i]; }), 0.75) << name;
}

TEST(AsTorchvision, ResizesAndCrops) {
  const Image square = centre_square(read_image(reference("photo.jpg")), 64);
  const Image expected = read_image(reference("square.png"));
  ASSERT_EQ(square.shape, expected.shape);
  EXPECT_LT(mean_difference(expected, [&](size_t i) { return static_cast<float>(square.bytes[i]); }), 0.75);
  expect_as_pillow("tested.png", 56, {});
}

TEST(AsTorchvision, ResizesRandomCrops) {
  expect_as_pillow("enlarged.png", 56, {9 - 4, 5 - 4, false, 31, 40});
  expect_as_pillow("shrunk.png", 24, {0 - 20, 3 - 20, false, 60, 61});
}

TEST(AsTorchvision, ReadsCmykAsPillow) {
  const Image image = read_image(reference("cmyk.jpg")), expected = read_image(reference("cmyk.png"));
  ASSERT_EQ(image.shape, expected.shape);
  EXPECT_LT(mean_difference(expected, [&](size_t i) { return static_cast<float>(image.bytes[i]); }), 1);
}

TEST(AsTorchvision, DrawsPartsOfTheUsualAreaAndAspect) {
  const Images images = cached_square(56);
  double area = 0;
  int flips = 0;
  std::set<int64_t> tops;
  for (uint32_t i = 0; i < 2000; ++i) {
    const PhiloxBlock words = Random(5, Purpose::augment).block(i);
    const Placement p = place({.flip = true, .resized_crop = true}, images, words);
    ASSERT_TRUE(p.dy >= -4 && p.dx >= -4 && p.dy + p.height <= 60 && p.dx + p.width <= 60);
    const double share = static_cast<double>(p.height * p.width) / (64 * 64);
    const double aspect = static_cast<double>(p.width) / static_cast<double>(p.height);
    ASSERT_TRUE(share > 0.07 && aspect > 0.7 && aspect < 1.43) << share << " " << aspect;
    area += share / 2000;
    flips += p.flip ? 1 : 0;
    tops.insert(p.dy);
    EXPECT_FALSE(place({.resized_crop = true}, images, words).flip);
  }
  EXPECT_NEAR(area, 0.484, 0.02) << "what torchvision's own draws come to";
  EXPECT_NEAR(flips, 1000, 100);
  EXPECT_GT(tops.size(), 30U);
}

TEST(WriteSample, MirrorsAResizedCrop) {
  const Images images = cached_square(24);
  std::vector<float> straight(3 * 24 * 24), mirrored(straight.size());
  write_sample(images, 0, {-20, -20, false, 60, 50}, imagenet_normalisation(), straight.data());
  write_sample(images, 0, {-20, -20, true, 60, 50}, imagenet_normalisation(), mirrored.data());
  for (size_t row = 0; row < 3 * 24; ++row) std::reverse(&straight[row * 24], &straight[row * 24] + 24);
  EXPECT_EQ(straight, mirrored);
}

}  // namespace fedgrab::batch_test
