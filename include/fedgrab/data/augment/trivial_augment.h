/// torchvision's TrivialAugmentWide (Müller and Hutter 2021): one distortion of random kind and magnitude.
#pragma once

#include "fedgrab/data/augment.h"
#include "fedgrab/data/augment/distortion.h"

namespace fedgrab {

struct TrivialAugment {
  static constexpr const char* name = "trivial-augment";
  static Operation make(const OperationSetup&) { return {}; }

  template <class Team>
  FEDGRAB_DEVICE static void apply(const Team& team, Canvas& canvas, const Operation&, const OperationWords& words) {
    const MagnitudeRange range = wide_range();
    distort(team, canvas, static_cast<Distortion>(words.word[0] % distortion_kinds), range,
            static_cast<int32_t>(words.word[1] % static_cast<uint32_t>(range.bins)), (words.word[2] & 1U) != 0);
  }
};

}  // namespace fedgrab
