#include <algorithm>
#include <cmath>
#include <numeric>

#include "fedgrab/data/image.h"
#include "resample.h"

namespace fedgrab {

Resampler::Resampler(int64_t height, int64_t width, int64_t to_height, int64_t to_width)
    : Resampler({height, to_height, 0, to_height}, {width, to_width, 0, to_width}) {}

Resampler::Resampler(Axis down, Axis across) : down_(down), across_(across), row_(static_cast<size_t>(across.source)) {}

/// A triangle around the target's centre, one source pixel wide on either side, or one target pixel when shrinking.
Resampler::Filter::Filter(Axis axis) {
  const auto [source, target, begin, count] = axis;
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double support = std::max(1.0, scale);
  const auto most = std::min(source, static_cast<int64_t>(std::ceil(2 * support)) + 1);
  taps = static_cast<size_t>(most);
  for (int64_t i = begin; i < begin + count; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto start = std::clamp<int64_t>(std::llround(std::floor(centre - support + 0.5)), 0, source - most);
    std::vector<double> triangle;
    for (int64_t x = start; x < start + most; ++x)
      triangle.push_back(std::max(0.0, 1.0 - std::abs(static_cast<double>(x) + 0.5 - centre) / support));
    const double sum = std::accumulate(triangle.begin(), triangle.end(), 0.0);
    first.push_back(static_cast<size_t>(start));
    for (const double weight : triangle) weights.push_back(static_cast<float>(weight / sum));
  }
}

/// Rows first: that direction runs along memory, and leaves fewer rows for the other.
void Resampler::operator()(const uint8_t* plane, size_t stride, uint8_t* out) {
  for (size_t y = 0; y < down_.first.size(); ++y) {
    std::fill(row_.begin(), row_.end(), 0.0F);
    for (size_t k = 0; k < down_.taps; ++k) {
      const uint8_t* source = plane + (down_.first[y] + k) * stride;
      const float weight = down_.weights[y * down_.taps + k];
      for (size_t x = 0; x < row_.size(); ++x) row_[x] += weight * static_cast<float>(source[x]);
    }
    const float* weight = across_.weights.data();
    for (const size_t start : across_.first) {
      float sum = 0.5F;
      for (size_t k = 0; k < across_.taps; ++k) sum += *weight++ * row_[start + k];
      *out++ = static_cast<uint8_t>(std::clamp(sum, 0.0F, 255.0F));
    }
  }
}

Image resize(const Image& image, int64_t height, int64_t width) {
  if (image.shape.height == height && image.shape.width == width) return {image.shape, image.bytes, image.reduced};
  Resampler resample(image.shape.height, image.shape.width, height, width);
  Image result{{image.shape.channels, height, width}, {}};
  result.bytes.resize(static_cast<size_t>(result.shape.size()));
  for (int64_t channel = 0; channel < image.shape.channels; ++channel)
    resample(image.bytes.data() + channel * image.shape.height * image.shape.width,
             static_cast<size_t>(image.shape.width), result.bytes.data() + channel * height * width);
  return result;
}

Image centre_square(const Image& image, int64_t side) {
  const auto [channels, height, width] = image.shape;
  if (height == side && width == side) return {image.shape, image.bytes, image.reduced};
  const int64_t shorter = std::min(height, width);
  // Half a pixel is rounded to even, as Python's round() does for torchvision. What is cut off is never made: of a
  // panorama that would be most.
  const auto middle = [&](int64_t length) {
    const int64_t scaled = length * side / shorter;
    return Resampler::Axis{length, scaled, std::lrint(static_cast<double>(scaled - side) / 2), side};
  };
  Resampler resample(middle(height), middle(width));
  Image square{{channels, side, side}, {}};
  square.bytes.resize(static_cast<size_t>(square.shape.size()));
  for (int64_t channel = 0; channel < channels; ++channel)
    resample(image.bytes.data() + channel * height * width, static_cast<size_t>(width),
             square.bytes.data() + channel * side * side);
  return square;
}

}  // namespace fedgrab
