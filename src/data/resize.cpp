#include <algorithm>
#include <cmath>

#include "fedgrab/data/image.h"
#include "resample.h"

namespace fedgrab {

Resampler::Resampler(int64_t height, int64_t width, int64_t to_height, int64_t to_width)
    : height_(static_cast<size_t>(height)),
      across_(triangle_filter(width, to_width)),
      down_(triangle_filter(height, to_height)),
      rows_(height_ * across_.size()),
      sums_(across_.size()) {}

/// A triangle around the target's centre, one source pixel wide on either side, or one target pixel when shrinking.
std::vector<Resampler::Taps> Resampler::triangle_filter(int64_t source, int64_t target) {
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

void Resampler::operator()(const uint8_t* plane, size_t stride, uint8_t* out) {
  const size_t width = across_.size();
  for (size_t y = 0; y < height_; ++y) {
    const uint8_t* row = plane + y * stride;
    float* sum = &rows_[y * width];
    for (const Taps& taps : across_) {
      *sum = 0;
      for (size_t k = 0; k < taps.weights.size(); ++k)
        *sum += taps.weights[k] * static_cast<float>(row[taps.first + k]);
      ++sum;
    }
  }
  for (const Taps& taps : down_) {
    std::fill(sums_.begin(), sums_.end(), 0.0F);
    for (size_t k = 0; k < taps.weights.size(); ++k) {
      const float* row = &rows_[(taps.first + k) * width];
      for (size_t x = 0; x < width; ++x) sums_[x] += taps.weights[k] * row[x];
    }
    out = std::transform(sums_.begin(), sums_.end(), out,
                         [](float sum) { return static_cast<uint8_t>(std::clamp(sum + 0.5F, 0.0F, 255.0F)); });
  }
}

Image resize(const Image& image, int64_t height, int64_t width) {
  if (image.shape.height == height && image.shape.width == width) return image;
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
  const int64_t shorter = std::min(height, width);
  const Image scaled = resize(image, height * side / shorter, width * side / shorter);
  // Half a pixel is rounded to even, as Python's round() does for torchvision.
  const auto offset = [side](int64_t length) { return std::lrint(static_cast<double>(length - side) / 2); };
  const int64_t top = offset(scaled.shape.height), left = offset(scaled.shape.width);
  Image square{{channels, side, side}, {}};
  square.bytes.reserve(static_cast<size_t>(square.shape.size()));
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t y = top; y < top + side; ++y) {
      const auto row = scaled.bytes.begin() + (channel * scaled.shape.height + y) * scaled.shape.width + left;
      square.bytes.insert(square.bytes.end(), row, row + side);
    }
  return square;
}

}  // namespace fedgrab
