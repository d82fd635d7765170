/// torchvision's RandomCrop with black padding. Where the list begins with it, the crop is taken while the stored image
/// is read, see place(); this is for a crop behind other operations.
#pragma once

#include "fedgrab/data/augment.h"
#include "fedgrab/data/augment/canvas.h"

namespace fedgrab {

struct Crop {
  static constexpr const char* name = "crop";
  static Operation make(const OperationSetup& setup) { return {0, setup.crop_padding, {}}; }

  template <class Team>
  FEDGRAB_DEVICE static void apply(const Team& team, Canvas& canvas, const Operation& crop,
                                   const OperationWords& words) {
    const auto choices = static_cast<uint32_t>(2 * crop.value + 1);
    const auto down = static_cast<int32_t>(words.word[0] % choices) - crop.value;
    const auto right = static_cast<int32_t>(words.word[1] % choices) - crop.value;
    const int32_t width = canvas.width, height = canvas.height, plane = canvas.plane();
    team.each(plane, [&](int32_t i) {
      const int32_t y = i / width + down, x = i % width + right;
      const bool inside = y >= 0 && x >= 0 && y < height && x < width;
      for (int32_t pixel = i; pixel < canvas.size(); pixel += plane)
        canvas.spare[pixel] = inside ? canvas.pixels[pixel + down * width + right] : uint8_t{0};
    });
    canvas.swap();
  }
};

}  // namespace fedgrab
