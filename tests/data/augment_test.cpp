#include "fedgrab/data/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "fedgrab/core/error.h"
#include "fedgrab/data/augment/operations.h"
#include "fedgrab/data/batch.h"
#include "fedgrab/data/image.h"

namespace fedgrab::augment_test {

std::string reference(const std::string& name) { return FEDGRAB_TEST_DATA "/data/reference/" + name; }

/// An image with its buffers.
struct Picture {
  std::vector<uint8_t> pixels, spare;
  std::vector<uint32_t> bins;
  Canvas canvas;

  Picture(ImageShape shape, std::vector<uint8_t> bytes)
      : pixels(std::move(bytes)),
        spare(pixels.size()),
        bins(static_cast<size_t>(shape.channels) * 256),
        canvas{static_cast<int32_t>(shape.channels),
               static_cast<int32_t>(shape.height),
               static_cast<int32_t>(shape.width),
               pixels.data(),
               spare.data(),
               bins.data()} {}
  std::vector<uint8_t> result() const { return {canvas.pixels, canvas.pixels + canvas.size()}; }
};

Distortion distortion_named(const std::string& name) {
  static const std::vector<std::string> names{"Identity",  "ShearX",     "ShearY",       "TranslateX", "TranslateY",
                                              "Rotate",    "Brightness", "Color",        "Contrast",   "Sharpness",
                                              "Posterize", "Solarize",   "AutoContrast", "Equalize",   "Invert"};
  return static_cast<Distortion>(std::find(names.begin(), names.end(), name) - names.begin());
}

struct ReferenceLine {
  std::string text, image, transform;
  Distortion distortion;
  int32_t bin;
  double magnitude;
};

std::vector<ReferenceLine> reference_lines() {
  std::ifstream file(reference("augment.txt"));
  std::vector<ReferenceLine> lines;
  for (std::string text, operation; std::getline(file, text);) {
    ReferenceLine line{text, "", "", {}, 0, 0};
    std::istringstream(text) >> line.image >> line.transform >> operation >> line.bin >> line.magnitude;
    line.distortion = distortion_named(operation);
    lines.push_back(line);
  }
  return lines;
}

MagnitudeRange range_of(const std::string& transform, const Canvas& canvas) {
  if (transform == "trivial") return wide_range();
  return usual_range(canvas, transform == "rand" ? 31 : 10);
}

/// Part `index` of images that stand one below the other.
std::vector<uint8_t> part(const Image& column, int64_t height, int64_t index) {
  const auto [channels, rows, width] = column.shape;
  std::vector<uint8_t> bytes;
  for (int64_t c = 0; c < channels; ++c) {
    const auto first = column.bytes.begin() + (c * rows + index * height) * width;
    bytes.insert(bytes.end(), first, first + height * width);
  }
  return bytes;
}

TEST(AugmentAsTorchvision, HasItsMagnitudes) {
  const Canvas canvas{3, 32, 32, nullptr, nullptr, nullptr};
  int compared = 0;
  for (const auto& line : reference_lines()) {
    if (line.image != "-") continue;
    EXPECT_EQ(magnitude_of(line.distortion, range_of(line.transform, canvas), line.bin), line.magnitude) << line.text;
    ++compared;
  }
  EXPECT_GT(compared, 700);
}

TEST(AugmentAsTorchvision, HasItsPolicy) {
  uint32_t step = 0;
  for (const auto& line : reference_lines()) {
    if (line.image != "+") continue;
    const AutoAugment::Step ours = AutoAugment::step_of(step / 2, static_cast<int32_t>(step % 2));
    EXPECT_EQ(ours.distortion, line.distortion) << line.text;
    EXPECT_EQ(ours.bin, line.bin) << line.text;
    EXPECT_EQ(ours.tenths, std::lround(10 * line.magnitude)) << line.text;
    ++step;
  }
  EXPECT_EQ(step, 2 * AutoAugment::pairs);
}

/// Every distortion at several magnitudes, on colour and grey images: the same bytes, but for pixels of a rotation that
/// lie between two.
TEST(AugmentAsTorchvision, ComputesTheSamePixels) {
  const std::map<std::string, int64_t> heights{{"colour", 20}, {"narrow", 16}, {"grey", 13}, {"square", 32}};
  std::map<std::string, Image> columns;
  for (const auto& [name, height] : heights) columns[name] = read_image(reference("augment-" + name + ".png"));
  std::map<std::string, int64_t> next;
  int64_t bytes = 0, different = 0;
  for (const auto& line : reference_lines()) {
    if (line.image == "-" || line.image == "+") continue;
    const Image& column = columns.at(line.image);
    const int64_t height = heights.at(line.image);
    Picture picture({column.shape.channels, height, column.shape.width}, part(column, height, 0));
    distort(OneThread{}, picture.canvas, line.distortion, range_of(line.transform, picture.canvas), line.bin,
            line.magnitude < 0);
    const auto expected = part(column, height, ++next[line.image]), actual = picture.result();
    double sum = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      sum += std::abs(actual[i] - expected[i]);
      different += actual[i] == expected[i] ? 0 : 1;
    }
    bytes += static_cast<int64_t>(expected.size());
    EXPECT_LE(sum, 1.0 * static_cast<double>(expected.size())) << line.text;
  }
  for (const auto& [name, height] : heights)
    EXPECT_EQ(columns.at(name).shape.height, (next.at(name) + 1) * height) << name;
  EXPECT_EQ(different, 0) << "of " << bytes;
}

/// Goes through the pixels the other way round, as threads of a device might.
struct Backwards : OneThread {
  template <class F>
  void each(int32_t n, F&& f) const {
    for (int32_t i = n; i-- > 0;) f(i);
  }
};

TEST(Augment, DoesNotDependOnTheOrderOfThePixels) {
  const Image column = read_image(reference("augment-colour.png"));
  const ImageShape one{3, 20, column.shape.width};
  for (uint8_t kind = 0; kind <= static_cast<uint8_t>(Distortion::invert); ++kind)
    for (const bool negative : {false, true}) {
      Picture forwards(one, part(column, 20, 0)), backwards(one, part(column, 20, 0));
      distort(OneThread{}, forwards.canvas, static_cast<Distortion>(kind), wide_range(), 13, negative);
      distort(Backwards{}, backwards.canvas, static_cast<Distortion>(kind), wide_range(), 13, negative);
      EXPECT_EQ(forwards.result(), backwards.result()) << "distortion " << int{kind};
    }
}

const Normalisation plain{{0, 0, 0}, {1.0F / 255, 1.0F / 255, 1.0F / 255}};  // a byte comes out as its own value
const ImageShape shape{3, 16, 20};

/// Four images that no two distortions make the same of.
Images noise() {
  std::vector<uint8_t> bytes;
  const Random random(1, Purpose::synthetic);
  for (uint32_t i = 0; i < 4 * shape.size(); ++i) bytes.push_back(static_cast<uint8_t>(random.block(i)[0] % 200 + 10));
  return Images::own(shape, bytes);
}

std::vector<float> augmented(const Augmentation& augmentation, uint32_t view = 0, int64_t count = 200,
                             uint32_t first_position = 0) {
  const Images images = noise();
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) indices[static_cast<size_t>(i)] = (first_position + i) % images.count();
  std::vector<float> out(static_cast<size_t>(count * shape.size()));
  write_batch(images, indices, augmentation, plain, Random(3, Purpose::augment, 1, 2), first_position, out.data(),
              view);
  return out;
}

Operation named(const std::string& name, int32_t cutout = 0) {
  OperationSetup setup{16, 20, 2, cutout, {7, 8, 9}};
  return make_augmentation({name}, {}, setup).operations.items[0];
}

TEST(Augment, CropsAndFlipsAlikeWhereverTheyStand) {
  Operation nothing = named("cutout");
  nothing.value = 0;
  EXPECT_EQ(augmented({nothing, crop(2), flip()}), augmented({crop(2), flip()}));
}

TEST(Augment, CutoutLeavesTheRestAsItWas) {
  const auto before = augmented({crop(2), flip()}), after = augmented({crop(2), flip(), named("cutout", 6)});
  const auto size = static_cast<size_t>(shape.size());
  std::set<int64_t> sizes;
  for (size_t first = 0; first < before.size(); first += size) {
    int64_t covered = 0;
    for (size_t i = 0; i < size; ++i) {
      const float mean = 7.0F + static_cast<float>(i / (16 * 20));
      if (after[first + i] == before[first + i]) continue;
      EXPECT_NEAR(after[first + i], mean, 1e-3);
      covered += i < 16 * 20 ? 1 : 0;
    }
    EXPECT_LE(covered, 36);
    EXPECT_GE(covered, 9) << "a corner of the square at least";
    sizes.insert(covered);
  }
  EXPECT_TRUE(sizes.contains(36));
  EXPECT_GT(sizes.size(), 5U) << "squares are cut off at the edges";
}

TEST(Augment, TrivialAugmentTakesOneDistortionForAnImage) {
  const auto before = augmented({}), after = augmented({named("trivial-augment")});
  const auto size = static_cast<size_t>(shape.size());
  int64_t unchanged = 0;
  std::set<std::vector<float>> different;
  for (size_t first = 0; first < before.size(); first += size) {
    const std::vector<float> one(&after[first], &after[first] + size);
    unchanged += std::equal(one.begin(), one.end(), &before[first]) ? 1 : 0;
    different.insert(one);
  }
  EXPECT_GT(unchanged, 5);
  EXPECT_LT(unchanged, 60);
  EXPECT_GT(different.size(), 100U);
}

TEST(Augment, RandAugmentAndAutoAugmentChangeMostImages) {
  const auto before = augmented({});
  for (const auto& [name, least, most] : {std::tuple{"rand-augment", 160, 200}, std::tuple{"auto-augment", 140, 199}}) {
    const auto after = augmented({named(name)});
    int changed = 0;
    for (auto first = 0; first < 200; ++first) {
      const auto from = first * shape.size();
      changed += std::equal(&before[from], &before[from] + shape.size(), &after[from]) ? 0 : 1;
    }
    EXPECT_GE(changed, least) << name;
    EXPECT_LE(changed, most) << name;
  }
}

TEST(Augment, DependsOnThePositionNotOnTheBatch) {
  const Augmentation augmentation{crop(2), flip(), named("trivial-augment"), named("cutout")};
  const auto whole = augmented(augmentation, 0, 12), last = augmented(augmentation, 0, 4, 8);
  EXPECT_EQ(std::vector<float>(whole.end() - 4 * shape.size(), whole.end()), last);
}

TEST(Augment, GivesASecondViewNumbersOfItsOwn) {
  Augmentation augmentation{crop(2), flip(), named("trivial-augment")};
  const auto first = augmented(augmentation), second = augmented(augmentation, 1);
  EXPECT_NE(first, second);
  augmentation.second = Augmentation{crop(2), flip()}.operations;
  EXPECT_EQ(augmented(augmentation), first);
  EXPECT_EQ(augmented(augmentation, 1), augmented({crop(2), flip()}, 1));
  EXPECT_NE(augmented(augmentation, 1), augmented({crop(2), flip()}));
}

TEST(Augment, RepeatsAnOperationWithOtherNumbers) {
  EXPECT_NE(augmented({named("cutout"), named("cutout")}), augmented({named("cutout")}));
}

}  // namespace fedgrab::augment_test
