/// torchvision's brightness, colour, contrast and sharpness: a blend of the image with a degenerate one. Factor 1
/// leaves the image as it is.
#pragma once

#include "fedgrab/data/augment/canvas.h"

namespace fedgrab {

/// factor · image + (1 − factor) · degenerate.
class Blend {
 public:
  FEDGRAB_DEVICE explicit Blend(double factor)
      : image_(static_cast<float>(factor)), degenerate_(static_cast<float>(1.0 - factor)) {}
  FEDGRAB_DEVICE uint8_t operator()(uint8_t image, float degenerate) const {
    return to_byte(add(multiply(image_, static_cast<float>(image)), multiply(degenerate_, degenerate)));
  }

 private:
  float image_, degenerate_;
};

/// Pixel i of the grey image.
FEDGRAB_DEVICE inline uint8_t grey(const Canvas& canvas, int32_t i) {
  if (canvas.channels != 3) return canvas.pixels[i];
  const int32_t plane = canvas.plane();
  const auto red = static_cast<float>(canvas.pixels[i]), green = static_cast<float>(canvas.pixels[plane + i]),
             blue = static_cast<float>(canvas.pixels[2 * plane + i]);
  return to_byte(add(add(multiply(0.2989F, red), multiply(0.587F, green)), multiply(0.114F, blue)));
}

template <class Team>
FEDGRAB_DEVICE void adjust_brightness(const Team& team, Canvas& canvas, double factor) {
  const Blend blend(factor);
  team.each(canvas.size(), [&](int32_t i) { canvas.pixels[i] = blend(canvas.pixels[i], 0.0F); });
}

template <class Team>
FEDGRAB_DEVICE void adjust_color(const Team& team, Canvas& canvas, double factor) {
  if (canvas.channels != 3) return;
  const Blend blend(factor);
  const int32_t plane = canvas.plane();
  team.each(plane, [&](int32_t i) {
    const float degenerate = grey(canvas, i);
    for (int32_t c = 0; c < 3; ++c) {
      uint8_t& value = canvas.pixels[c * plane + i];
      value = blend(value, degenerate);
    }
  });
}

template <class Team>
FEDGRAB_DEVICE void adjust_contrast(const Team& team, Canvas& canvas, double factor) {
  const uint32_t sum = team.sum(
      canvas.plane(), [&](int32_t i) { return uint32_t{grey(canvas, i)}; }, canvas.bins[0]);
  const float mean = divide(static_cast<float>(sum), static_cast<float>(canvas.plane()));
  const Blend blend(factor);
  team.each(canvas.size(), [&](int32_t i) { canvas.pixels[i] = blend(canvas.pixels[i], mean); });
}

template <class Team>
FEDGRAB_DEVICE void adjust_sharpness(const Team& team, Canvas& canvas, double factor) {
  const int32_t height = canvas.height, width = canvas.width;
  if (height <= 2 || width <= 2) return;
  const Blend blend(factor);
  const int32_t plane = canvas.plane();
  team.each(plane, [&](int32_t i) {
    const int32_t y = i / width, x = i % width;
    const bool inside = y > 0 && x > 0 && y < height - 1 && x < width - 1;
    for (int32_t pixel = i; pixel < canvas.size(); pixel += plane) {
      const uint8_t* const at = canvas.pixels + pixel;
      int32_t smooth = *at;
      if (inside) {
        smooth *= 4;  // and once more below
        for (int32_t row = -width; row <= width; row += width) smooth += at[row - 1] + at[row] + at[row + 1];
        smooth = (smooth + 6) / 13;  // the nearest integer: thirteenths have no ties
      }
      canvas.spare[pixel] = blend(*at, static_cast<float>(smooth));
    }
  });
  canvas.swap();
}

}  // namespace fedgrab
