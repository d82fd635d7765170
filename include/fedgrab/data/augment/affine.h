/// torchvision's affine transformations with nearest interpolation and black outside, in fixed point: floats of two
/// devices would not agree on every pixel.
#pragma once

#include <cmath>

#include "fedgrab/data/augment/canvas.h"

namespace fedgrab {

/// Where a pixel of the result comes from, in doubled pixels from the centre of the image, so that they are integers:
/// x' = xx x + xy y + x0, y' = yx x + yy y + y0.
struct AffineMap {
  static constexpr int fraction = 30;  // bits
  static constexpr int64_t one = int64_t{1} << fraction;
  int64_t xx = one, xy = 0, x0 = 0;
  int64_t yx = 0, yy = one, y0 = 0;
};

FEDGRAB_DEVICE inline int64_t fixed_point(double value) {
  return llrint(multiply(value, static_cast<double>(AffineMap::one)));
}

/// Twice a coordinate from the centre to the nearest pixel of `size`; a half goes to the even one, as in torch.
FEDGRAB_DEVICE inline int64_t nearest_pixel(int64_t doubled, int32_t size) {
  constexpr int shift = AffineMap::fraction + 1;
  const int64_t position = doubled + (int64_t{size} - 1) * AffineMap::one;  // / 2^shift is the pixel
  const int64_t up = (position + AffineMap::one) >> shift;
  const bool tie = up * 2 * AffineMap::one == position + AffineMap::one;
  return tie && (up & 1) != 0 ? up - 1 : up;
}

template <class Team>
FEDGRAB_DEVICE void transform(const Team& team, Canvas& canvas, const AffineMap& map) {
  const int32_t plane = canvas.plane();
  team.each(plane, [&](int32_t i) {
    const int64_t y = 2 * (i / canvas.width) + 1 - canvas.height, x = 2 * (i % canvas.width) + 1 - canvas.width;
    const int64_t from_x = nearest_pixel(map.xx * x + map.xy * y + map.x0, canvas.width);
    const int64_t from_y = nearest_pixel(map.yx * x + map.yy * y + map.y0, canvas.height);
    const bool inside = from_x >= 0 && from_y >= 0 && from_x < canvas.width && from_y < canvas.height;
    const auto from = static_cast<int32_t>(from_y * canvas.width + from_x);
    for (int32_t c = 0; c < canvas.channels; ++c)
      canvas.spare[c * plane + i] = inside ? canvas.pixels[c * plane + from] : uint8_t{0};
  });
  canvas.swap();
}

/// About the upper left corner, as AutoAugment and its successors shear.
FEDGRAB_DEVICE inline AffineMap shear_x(double by, int32_t height) {
  AffineMap map;
  map.xy = fixed_point(by);
  map.x0 = map.xy * height;
  return map;
}
FEDGRAB_DEVICE inline AffineMap shear_y(double by, int32_t width) {
  AffineMap map;
  map.yx = fixed_point(by);
  map.y0 = map.yx * width;
  return map;
}
FEDGRAB_DEVICE inline AffineMap translate(int32_t right, int32_t down) {
  AffineMap map;
  map.x0 = -2 * AffineMap::one * right;
  map.y0 = -2 * AffineMap::one * down;
  return map;
}
/// Counter-clockwise, about the centre.
FEDGRAB_DEVICE inline AffineMap rotate(double degrees) {
  const double angle = multiply(degrees, 3.14159265358979323846 / 180.0);
  AffineMap map;
  map.xx = map.yy = fixed_point(cos(angle));
  map.yx = fixed_point(sin(angle));
  map.xy = -map.yx;
  return map;
}

}  // namespace fedgrab
