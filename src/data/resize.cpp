#include <algorithm>
#include <cmath>

#include "fedgrab/data/image.h"

namespace fedgrab {
namespace {

/// The source pixels that make up one target pixel.
struct Taps {
  size_t first;
  std::vector<float> weights;  // sum 1
};

/// A triangle around the target's centre, one source pixel wide on either side, or one target pixel when shrinking.
std::vector<Taps> triangle_filter(int64_t source, int64_t target) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double support = std::max(1.0, scale);
  std::vector<Taps> filter(static_cast<size_t>(target));
  for (size_t i = 0; i < filter.size(); ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - support + 0.5)));
    const auto last = std::min(source, static_cast<int64_t>(std::floor(centre + support + 0.5)));
    double sum = 0;
    std::vector<double> weights;
    for (int64_t x = first; x < last; ++x) {
      const double distance = std::abs(static_cast<double>(x) + 0.5 - centre) / support;
      weights.push_back(std::max(0.0, 1.0 - distance));
      sum += weights.back();
    }
    filter[i].first = static_cast<size_t>(first);
    for (const double weight : weights) filter[i].weights.push_back(static_cast<float>(weight / sum));
  }
  return filter;
}

/// One row of bytes to one row of floats.
void filter_row(const uint8_t* row, const std::vector<Taps>& filter, float* out) {
  for (const Taps& taps : filter) {
    float sum = 0;
    for (size_t k = 0; k < taps.weights.size(); ++k) sum += taps.weights[k] * static_cast<float>(row[taps.first + k]);
    *out++ = sum;
  }
}

/// Rows of floats to one row of bytes.
void blend_rows(const float* rows, size_t width, const Taps& taps, uint8_t* out) {
  std::vector<float> sums(width);
  for (size_t k = 0; k < taps.weights.size(); ++k) {
    const float* row = rows + (taps.first + k) * width;
    for (size_t x = 0; x < width; ++x) sums[x] += taps.weights[k] * row[x];
  }
  std::transform(sums.begin(), sums.end(), out,
                 [](float sum) { return static_cast<uint8_t>(std::clamp(sum + 0.5F, 0.0F, 255.0F)); });
}

}  // namespace

Image resize(const Image& image, int64_t height, int64_t width) {
  if (image.shape.height == height && image.shape.width == width) return image;
  const auto across = triangle_filter(image.shape.width, width);
  const auto down = triangle_filter(image.shape.height, height);
  Image result{{image.shape.channels, height, width}, {}};
  result.bytes.resize(static_cast<size_t>(result.shape.size()));
  const auto source_height = static_cast<size_t>(image.shape.height),
             source_width = static_cast<size_t>(image.shape.width);
  std::vector<float> rows(source_height * across.size());
  uint8_t* out = result.bytes.data();
  for (size_t channel = 0; channel < static_cast<size_t>(image.shape.channels); ++channel) {
    const uint8_t* plane = image.bytes.data() + channel * source_height * source_width;
    for (size_t y = 0; y < source_height; ++y) filter_row(plane + y * source_width, across, &rows[y * across.size()]);
    for (const Taps& taps : down) {
      blend_rows(rows.data(), across.size(), taps, out);
      out += across.size();
    }
  }
  return result;
}

}  // namespace fedgrab
