#include "sample_images.h"

#include <algorithm>
#include <cmath>

#include "fedgrab/data/image.h"

namespace fedgrab {
namespace {

constexpr int64_t longest_side = 64;

double softmax_at(const float* logits, int64_t classes, int64_t answer) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c)
    sum += std::exp(static_cast<double>(logits[c]) - static_cast<double>(logits[answer]));
  return 1 / sum;
}

/// What a model sees of it, without the margin.
Image image_at(const Images& images, int64_t i) {
  const auto stored = images.stored();
  const auto bytes = images.at(i);
  Image image{images.shape, {}};
  for (int64_t channel = 0; channel < stored.channels; ++channel)
    for (int64_t row = 0; row < image.shape.height; ++row) {
      const auto start = (channel * stored.height + row + images.margin) * stored.width + images.margin;
      const auto line = bytes.subspan(static_cast<size_t>(start), static_cast<size_t>(image.shape.width));
      image.bytes.insert(image.bytes.end(), line.begin(), line.end());
    }
  return image;
}

std::string thumbnail(Image image) {
  const auto longest = std::max(image.shape.height, image.shape.width);
  const auto reduced = [&](int64_t side) { return std::max<int64_t>(1, side * longest_side / longest); };
  if (longest > longest_side) image = resize(image, reduced(image.shape.height), reduced(image.shape.width));
  const auto [channels, height, width] = image.shape;
  const auto plane = static_cast<size_t>(height * width);
  std::vector<uint8_t> pixels;
  pixels.reserve(image.bytes.size());
  for (size_t i = 0; i < plane; ++i)
    for (size_t channel = 0; channel < static_cast<size_t>(channels); ++channel)
      pixels.push_back(image.bytes[channel * plane + i]);
  return base64(encode_png(channels, height, width, pixels).png);
}

}  // namespace

std::vector<SampleChoice> choose_samples(const Predictions& predictions, const Split& test, int64_t count) {
  const auto logits = predictions.logits.contiguous();
  const auto classes = logits.size(1);
  std::vector<SampleChoice> all;
  for (int64_t i = 0; i < test.count(); ++i) {
    const int64_t answer = predictions.classes[static_cast<size_t>(i)];
    const double confidence = softmax_at(logits.data_ptr<float>() + i * classes, classes, answer);
    if (std::isfinite(confidence)) all.push_back({i, answer, confidence});
  }
  const auto is_right = [&](const SampleChoice& s) { return s.answer == test.labels[static_cast<size_t>(s.image)]; };
  const auto before = [&](const SampleChoice& a, const SampleChoice& b) {
    const bool right = is_right(a);
    if (right != is_right(b)) return !right;
    if (a.confidence != b.confidence) return right ? a.confidence < b.confidence : a.confidence > b.confidence;
    return a.image < b.image;
  };
  const auto kept = std::min(static_cast<size_t>(count), all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(), before);
  all.resize(kept);
  return all;
}

std::vector<SampleImage> sample_images(const std::vector<SampleChoice>& choices, const Split& test) {
  std::vector<SampleImage> samples;
  for (const auto& [image, answer, confidence] : choices)
    samples.push_back(
        {test.labels[static_cast<size_t>(image)], answer, confidence, thumbnail(image_at(test.images, image))});
  return samples;
}

}  // namespace fedgrab
