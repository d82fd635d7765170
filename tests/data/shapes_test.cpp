#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "fedgrab/core/interrupt.h"
#include "fedgrab/data/load.h"

namespace fedgrab::shapes_test {

std::string image(const Split& split, int64_t i) {
  const auto bytes = split.images.at(i);
  return {bytes.begin(), bytes.end()};
}

TEST(Shapes, DrawingCanBeInterrupted) {
  const std::atomic<bool> stop = true;
  const StopScope scope(&stop);
  EXPECT_THROW(make_shapes(6, 3, 1), Interrupted);
}

TEST(Shapes, HasTenBalancedClasses) {
  const Dataset data = make_shapes(6, 3, 1);
  EXPECT_EQ(data.name, "shapes");
  EXPECT_TRUE(data.balanced);
  EXPECT_EQ(data.classes(), 10);
  EXPECT_EQ(std::set<std::string>(data.class_names.begin(), data.class_names.end()).size(), 10U);
  EXPECT_EQ(data.shape(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(data.train.images.count(), 60);
  EXPECT_EQ(class_counts(data.train.labels, 10), std::vector<int64_t>(10, 6));
  EXPECT_EQ(class_counts(data.test.labels, 10), std::vector<int64_t>(10, 3));
  EXPECT_EQ(data.normalisation.mean.size(), 3U);
}

TEST(Shapes, ImagesAreAFunctionOfSeedSplitClassAndIndex) {
  const Dataset data = make_shapes(4, 4, 1);
  const Dataset larger = make_shapes(8, 2, 1);
  const Dataset other = make_shapes(4, 4, 2);
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(image(data.train, i), image(larger.train, i));
    EXPECT_NE(image(data.train, i), image(other.train, i));
    EXPECT_NE(image(data.train, i), image(data.test, i));
  }
  std::set<std::string> distinct;
  for (int64_t i = 0; i < larger.train.count(); ++i) distinct.insert(image(larger.train, i));
  EXPECT_EQ(distinct.size(), 80U);
}

TEST(Shapes, ImagesUseTheWholeRangeOfBytes) {
  const Dataset data = make_shapes(20, 1, 1);
  const auto bytes = data.train.images.bytes;
  EXPECT_EQ(*std::min_element(bytes.begin(), bytes.end()), 0);
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), 255);
  const double mean = std::accumulate(bytes.begin(), bytes.end(), 0.0) / static_cast<double>(bytes.size()) / 255;
  EXPECT_NEAR(mean, data.normalisation.mean[0], 0.06);
}

TEST(Shapes, ColourCarriesNoLabel) {
  // The mean colour of a class must be that of the whole set: a deviation of a colour is 0.2, 200 images each.
  const Dataset data = make_shapes(200, 1, 3);
  std::vector<std::array<double, 3>> means(10);
  for (int64_t i = 0; i < data.train.count(); ++i) {
    const auto bytes = data.train.images.at(i);
    for (size_t channel = 0; channel < 3; ++channel)
      means[static_cast<size_t>(data.train.labels[static_cast<size_t>(i)])][channel] +=
          std::accumulate(bytes.begin() + 1024 * channel, bytes.begin() + 1024 * (channel + 1), 0.0) / 1024 / 255 / 200;
  }
  for (const auto& mean : means)
    for (const double value : mean) EXPECT_NEAR(value, data.normalisation.mean[0], 0.07);
}

/// Distance from the middle colour of the image to its border colour, averaged over a class.
double centre_contrast(const Dataset& data, int32_t label) {
  double sum = 0, count = 0;
  for (int64_t i = 0; i < data.train.count(); ++i) {
    if (data.train.labels[static_cast<size_t>(i)] != label) continue;
    const auto bytes = data.train.images.at(i);
    for (size_t channel = 0; channel < 3; ++channel) {
      const auto* plane = bytes.data() + 1024 * channel;
      const double middle = plane[16 * 32 + 16];
      const double border = (plane[0] + plane[31] + plane[31 * 32] + plane[31 * 32 + 31]) / 4.0;
      sum += std::abs(middle - border) / 255;
      ++count;
    }
  }
  return sum / count;
}

TEST(Shapes, FiguresAreThere) {
  // A full figure covers the middle of most images; a ring is hollow there.
  const Dataset data = make_shapes(100, 1, 4);
  const auto label = [&](const char* name) {
    return static_cast<int32_t>(std::find(data.class_names.begin(), data.class_names.end(), name) -
                                data.class_names.begin());
  };
  const double hollow = centre_contrast(data, label("ring"));
  for (const char* name : {"circle", "square", "star", "cross", "pentagon", "heart"})
    EXPECT_GT(centre_contrast(data, label(name)), hollow + 0.05) << name;
}

}  // namespace fedgrab::shapes_test
