/// The distortions that TrivialAugment, RandAugment and AutoAugment choose from, with torchvision's magnitudes.
#pragma once

#include "fedgrab/data/augment/affine.h"
#include "fedgrab/data/augment/enhance.h"
#include "fedgrab/data/augment/tone.h"

namespace fedgrab {

/// In torchvision's order, which is the order of the draws.
enum class Distortion : uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize,
  invert,  // AutoAugment alone
};

/// Kinds that TrivialAugment and RandAugment choose from.
constexpr uint32_t distortion_kinds = static_cast<uint32_t>(Distortion::invert);

/// The largest magnitudes; `bins` steps lead there from none.
struct MagnitudeRange {
  int32_t bins;
  float shear, translate_x, translate_y, rotate, enhance;
  int32_t posterize;  // bits taken away
};

FEDGRAB_DEVICE inline MagnitudeRange wide_range() { return {31, 0.99F, 32.0F, 32.0F, 135.0F, 0.99F, 6}; }
/// AutoAugment's, that RandAugment keeps.
FEDGRAB_DEVICE inline MagnitudeRange usual_range(const Canvas& canvas, int32_t bins) {
  const double share = 150.0 / 331.0;
  return {bins,
          0.3F,
          static_cast<float>(multiply(share, static_cast<double>(canvas.width))),
          static_cast<float>(multiply(share, static_cast<double>(canvas.height))),
          30.0F,
          0.9F,
          4};
}

/// torch.linspace(start, end, bins)[bin], which fuses the product with the sum: a product of two floats is exact here.
FEDGRAB_DEVICE inline float linspace(float start, float end, int32_t bin, int32_t bins) {
  const double step = divide(end - start, static_cast<float>(bins - 1));
  return static_cast<float>(bin < bins / 2 ? start + step * bin : end - step * (bins - bin - 1));
}

FEDGRAB_DEVICE inline float magnitude_of(Distortion distortion, const MagnitudeRange& range, int32_t bin) {
  const auto up_to = [&](float end) { return linspace(0.0F, end, bin, range.bins); };
  switch (distortion) {
    case Distortion::shear_x:
    case Distortion::shear_y: return up_to(range.shear);
    case Distortion::translate_x: return up_to(range.translate_x);
    case Distortion::translate_y: return up_to(range.translate_y);
    case Distortion::rotate: return up_to(range.rotate);
    case Distortion::brightness:
    case Distortion::color:
    case Distortion::contrast:
    case Distortion::sharpness: return up_to(range.enhance);
    case Distortion::posterize: {
      const int32_t last = range.bins - 1;
      const int32_t bits = 8 - (2 * bin * range.posterize + last) / (2 * last);  // rounded
      return static_cast<float>(bits);
    }
    case Distortion::solarize: return linspace(255.0F, 0.0F, bin, range.bins);
    default: return 0;
  }
}

/// Whether a random sign goes with the magnitude.
FEDGRAB_DEVICE inline bool has_sign(Distortion distortion) {
  return distortion >= Distortion::shear_x && distortion <= Distortion::sharpness;
}

template <class Team>
FEDGRAB_DEVICE void distort(const Team& team, Canvas& canvas, Distortion distortion, float signed_magnitude) {
  const double magnitude = signed_magnitude;
  switch (distortion) {
    case Distortion::identity: return;
    case Distortion::shear_x: return transform(team, canvas, shear_x(magnitude, canvas.height));
    case Distortion::shear_y: return transform(team, canvas, shear_y(magnitude, canvas.width));
    case Distortion::translate_x: return transform(team, canvas, translate(static_cast<int32_t>(magnitude), 0));
    case Distortion::translate_y: return transform(team, canvas, translate(0, static_cast<int32_t>(magnitude)));
    case Distortion::rotate: return transform(team, canvas, rotate(magnitude));
    case Distortion::brightness: return adjust_brightness(team, canvas, 1.0 + magnitude);
    case Distortion::color: return adjust_color(team, canvas, 1.0 + magnitude);
    case Distortion::contrast: return adjust_contrast(team, canvas, 1.0 + magnitude);
    case Distortion::sharpness: return adjust_sharpness(team, canvas, 1.0 + magnitude);
    case Distortion::posterize: return posterize(team, canvas, static_cast<int32_t>(magnitude));
    case Distortion::solarize: return solarize(team, canvas, signed_magnitude);
    case Distortion::autocontrast: return autocontrast(team, canvas);
    case Distortion::equalize: return equalize(team, canvas);
    case Distortion::invert: return invert(team, canvas);
  }
}

/// The same with the magnitude of a bin.
template <class Team>
FEDGRAB_DEVICE void distort(const Team& team, Canvas& canvas, Distortion distortion, const MagnitudeRange& range,
                            int32_t bin, bool negative) {
  const float magnitude = magnitude_of(distortion, range, bin);
  distort(team, canvas, distortion, negative && has_sign(distortion) ? -magnitude : magnitude);
}

}  // namespace fedgrab
