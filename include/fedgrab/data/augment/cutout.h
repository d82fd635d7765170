/// Cutout (DeVries and Taylor 2017): a square about a random pixel, cut off at the edges, becomes the mean colour,
/// which is 0 after normalisation.
#pragma once

#include "fedgrab/data/augment.h"
#include "fedgrab/data/augment/canvas.h"

namespace fedgrab {

struct Cutout {
  static constexpr const char* name = "cutout";
  static Operation make(const OperationSetup& setup) {
    const int32_t half = (setup.height < setup.width ? setup.height : setup.width) / 2;
    Operation cutout{0, setup.cutout > 0 ? setup.cutout : half, {}};
    for (int c = 0; c < 4; ++c) cutout.fill[c] = setup.mean[c];
    return cutout;
  }

  template <class Team>
  FEDGRAB_DEVICE static void apply(const Team& team, Canvas& canvas, const Operation& cutout,
                                   const OperationWords& words) {
    const int32_t side = cutout.value;
    const auto top = static_cast<int32_t>(words.word[0] % static_cast<uint32_t>(canvas.height)) - side / 2;
    const auto left = static_cast<int32_t>(words.word[1] % static_cast<uint32_t>(canvas.width)) - side / 2;
    const int32_t plane = canvas.plane();
    team.each(plane, [&](int32_t i) {
      const int32_t y = i / canvas.width, x = i % canvas.width;
      if (y < top || x < left || y >= top + side || x >= left + side) return;
      for (int32_t c = 0; c < canvas.channels; ++c) canvas.pixels[c * plane + i] = cutout.fill[c & 3];
    });
  }
};

}  // namespace fedgrab
