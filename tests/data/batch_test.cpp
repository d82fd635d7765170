#include "fedgrab/data/batch.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace fedgrab {
namespace {

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
  const Augmentation both{4, true};
  const auto at = [&](uint32_t a, uint32_t b, uint32_t c) {
    const Placement p = place(both, {a, b, c, 77});
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
    const Placement none = place({0, false}, words);
    EXPECT_TRUE(none.dy == 0 && none.dx == 0 && !none.flip);
    EXPECT_FALSE(place({2, false}, words).flip);
    crops.insert({place({1, true}, words).dy, place({1, true}, words).dx});
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
  const Augmentation both{1, true};
  const Random random(3, Purpose::augment, 1, 2);
  const std::vector<int64_t> indices{0, 1, 1, 0, 1};
  std::vector<float> whole(60), parts(60);
  write_batch(images, indices, both, plain, random, 10, whole.data());
  write_batch(images, std::span(indices).first(2), both, plain, random, 10, parts.data());
  write_batch(images, std::span(indices).subspan(2), both, plain, random, 12, parts.data() + 24);
  EXPECT_EQ(whole, parts);
  for (size_t k = 0; k < indices.size(); ++k)
    EXPECT_EQ(std::vector<float>(whole.begin() + 12 * k, whole.begin() + 12 * (k + 1)),
              sample(indices[k], place(both, random.block(static_cast<uint32_t>(10 + k)))));
}

}  // namespace
}  // namespace fedgrab
