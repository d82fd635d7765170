/// Mirrors every other image, left to right. Where the list begins with it, see place(); this is for a flip behind
/// other operations.
#pragma once

#include "fedgrab/data/augment.h"
#include "fedgrab/data/augment/canvas.h"

namespace fedgrab {

struct Flip {
  static constexpr const char* name = "flip";
  static Operation make(const OperationSetup&) { return {}; }

  template <class Team>
  FEDGRAB_DEVICE static void apply(const Team& team, Canvas& canvas, const Operation&, const OperationWords& words) {
    if ((words.word[2] & 1U) == 0) return;
    const int32_t width = canvas.width, plane = canvas.plane();
    team.each(plane, [&](int32_t i) {
      const int32_t from = width - 1 - 2 * (i % width);
      for (int32_t pixel = i; pixel < canvas.size(); pixel += plane) canvas.spare[pixel] = canvas.pixels[pixel + from];
    });
    canvas.swap();
  }
};

}  // namespace fedgrab
