/// torchvision's RandAugment (Cubuk et al. 2020) with its defaults: two distortions of random kind and magnitude 9 of
/// 31.
#pragma once

#include "fedgrab/data/augment.h"
#include "fedgrab/data/augment/distortion.h"

namespace fedgrab {

struct RandAugment {
  static constexpr const char* name = "rand-augment";
  static Operation make(const OperationSetup&) { return {}; }

  template <class Team>
  FEDGRAB_DEVICE static void apply(const Team& team, Canvas& canvas, const Operation&, const OperationWords& words) {
    const MagnitudeRange range = usual_range(canvas, 31);
    for (size_t i = 0; i < 2; ++i)
      distort(team, canvas, static_cast<Distortion>(words.word[2 * i] % distortion_kinds), range, 9,
              (words.word[2 * i + 1] & 1U) != 0);
  }
};

}  // namespace fedgrab
