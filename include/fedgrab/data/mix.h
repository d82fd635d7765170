/// Mixing of the images of a batch: mixup (Zhang et al. 2018) blends every image with another, cutmix (Yun et al. 2019)
/// pastes a box of another into it. Image i is mixed with image i + 1 of the batch, the last with the first; the order
/// is random already. One share for the whole batch. The CPU and CUDA compute the same floats from the same random
/// words. nvcc compiles this header as C++17.
#pragma once

#include <cstdint>

#include "fedgrab/data/augment/canvas.h"

namespace fedgrab {

/// What a share λ ~ Beta(α, α) is read from, by its quantile; tables of `entries` floats, null: the operation is off.
struct MixTables {
  static constexpr int bits = 12;
  static constexpr int entries = 1 << bits;
  const float* mixup = nullptr;   // λ
  const float* cutmix = nullptr;  // √(1 − λ) / 2: half of the box's side, as a share of the image's
};

/// How one batch is mixed.
struct Mix {
  float share = 1;  // of an image itself and of its label; the other has the rest
  bool cut = false;
  int32_t top = 0, left = 0, bottom = 0, right = 0;  // the box where the other image is seen

  FEDGRAB_DEVICE bool inside(int32_t y, int32_t x) const { return y >= top && y < bottom && x >= left && x < right; }
  FEDGRAB_DEVICE float blend(float own, float other) const {
    return add(multiply(share, own), multiply(add(1.0F, -share), other));
  }
};

/// From four random words. Where both operations are on, each is chosen with probability 1/2. The box is torchvision's:
/// about a random pixel, cut off at the edges, and the share is that of the pixels left.
FEDGRAB_DEVICE inline Mix choose_mix(const MixTables& tables, const uint32_t (&words)[4], int32_t height,
                                     int32_t width) {
  const uint32_t entry = words[0] >> (32 - MixTables::bits);
  Mix mix;
  mix.cut = tables.mixup == nullptr || (tables.cutmix != nullptr && words[1] >> 31 != 0);
  if (!mix.cut) {
    mix.share = tables.mixup[entry];
    return mix;
  }
  const auto y = static_cast<int32_t>(words[2] % static_cast<uint32_t>(height));
  const auto x = static_cast<int32_t>(words[3] % static_cast<uint32_t>(width));
  const auto half_height = static_cast<int32_t>(multiply(tables.cutmix[entry], static_cast<float>(height)));
  const auto half_width = static_cast<int32_t>(multiply(tables.cutmix[entry], static_cast<float>(width)));
  mix.top = y > half_height ? y - half_height : 0;
  mix.left = x > half_width ? x - half_width : 0;
  mix.bottom = y + half_height < height ? y + half_height : height;
  mix.right = x + half_width < width ? x + half_width : width;
  const int32_t box = (mix.bottom - mix.top) * (mix.right - mix.left);
  mix.share = add(1.0F, -divide(static_cast<float>(box), static_cast<float>(height * width)));
  return mix;
}

}  // namespace fedgrab
