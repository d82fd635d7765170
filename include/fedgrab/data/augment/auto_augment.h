/// torchvision's AutoAugment with the policy for CIFAR-10 (Cubuk et al. 2019): two distortions of fixed magnitude, each
/// with a probability.
#pragma once

#include "fedgrab/data/augment.h"
#include "fedgrab/data/augment/distortion.h"

namespace fedgrab {

struct AutoAugment {
  static constexpr const char* name = "auto-augment";
  static Operation make(const OperationSetup&) { return {}; }

  struct Step {
    Distortion distortion;
    uint8_t tenths;  // probability
    uint8_t bin;
  };
  static constexpr uint32_t pairs = 25;

  /// Step `second` of a pair.
  FEDGRAB_DEVICE static Step step_of(uint32_t pair, int32_t second) {
    using D = Distortion;
    static const Step steps[pairs][2] = {
        {{D::invert, 1, 0}, {D::contrast, 2, 6}},          {{D::rotate, 7, 2}, {D::translate_x, 3, 9}},
        {{D::sharpness, 8, 1}, {D::sharpness, 9, 3}},      {{D::shear_y, 5, 8}, {D::translate_y, 7, 9}},
        {{D::autocontrast, 5, 0}, {D::equalize, 9, 0}},    {{D::shear_y, 2, 7}, {D::posterize, 3, 7}},
        {{D::color, 4, 3}, {D::brightness, 6, 7}},         {{D::sharpness, 3, 9}, {D::brightness, 7, 9}},
        {{D::equalize, 6, 0}, {D::equalize, 5, 0}},        {{D::contrast, 6, 7}, {D::sharpness, 6, 5}},
        {{D::color, 7, 7}, {D::translate_x, 5, 8}},        {{D::equalize, 3, 0}, {D::autocontrast, 4, 0}},
        {{D::translate_y, 4, 3}, {D::sharpness, 2, 6}},    {{D::brightness, 9, 6}, {D::color, 2, 8}},
        {{D::solarize, 5, 2}, {D::invert, 0, 0}},          {{D::equalize, 2, 0}, {D::autocontrast, 6, 0}},
        {{D::equalize, 2, 0}, {D::equalize, 6, 0}},        {{D::color, 9, 9}, {D::equalize, 6, 0}},
        {{D::autocontrast, 8, 0}, {D::solarize, 2, 8}},    {{D::brightness, 1, 3}, {D::color, 7, 0}},
        {{D::solarize, 4, 5}, {D::autocontrast, 9, 0}},    {{D::translate_y, 9, 9}, {D::translate_y, 7, 9}},
        {{D::autocontrast, 9, 0}, {D::solarize, 8, 3}},    {{D::equalize, 8, 0}, {D::invert, 1, 0}},
        {{D::translate_y, 7, 9}, {D::autocontrast, 9, 0}},
    };
    return steps[pair][second];
  }

  template <class Team>
  FEDGRAB_DEVICE static void apply(const Team& team, Canvas& canvas, const Operation&, const OperationWords& words) {
    const MagnitudeRange range = usual_range(canvas, 10);
    const uint32_t pair = words.word[0] % pairs;
    for (int32_t i = 0; i < 2; ++i) {
      const Step step = step_of(pair, i);
      const uint64_t part = words.word[1 + i] >> 8;  // of 2^24
      if (part * 10 >= uint64_t{step.tenths} << 24) continue;
      distort(team, canvas, step.distortion, range, step.bin, ((words.word[3] >> i) & 1U) != 0);
    }
  }
};

}  // namespace fedgrab
