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
    const int32_t width = canvas.width;
    team.each(canvas.size(), [&](int32_t i) { canvas.spare[i] = canvas.pixels[i + width - 1 - 2 * (i % width)]; });
    canvas.swap();
  }
};

}  // namespace fedgrab
