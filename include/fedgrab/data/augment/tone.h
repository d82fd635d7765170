/// torchvision's posterize, solarize, invert, autocontrast and equalize.
#pragma once

#include "fedgrab/data/augment/canvas.h"

namespace fedgrab {

template <class Team>
FEDGRAB_DEVICE void posterize(const Team& team, Canvas& canvas, int32_t bits) {
  const auto mask = static_cast<uint8_t>(0xFF00U >> bits);
  team.each(canvas.size(), [&](int32_t i) { canvas.pixels[i] &= mask; });
}

/// Inverts what is as bright as the threshold, or brighter.
template <class Team>
FEDGRAB_DEVICE void solarize(const Team& team, Canvas& canvas, float threshold) {
  team.each(canvas.size(), [&](int32_t i) {
    const uint8_t value = canvas.pixels[i];
    if (static_cast<float>(value) >= threshold) canvas.pixels[i] = static_cast<uint8_t>(255 - value);
  });
}

template <class Team>
FEDGRAB_DEVICE void invert(const Team& team, Canvas& canvas) {
  team.each(canvas.size(), [&](int32_t i) { canvas.pixels[i] = static_cast<uint8_t>(255 - canvas.pixels[i]); });
}

/// Into the canvas's bins, per channel.
template <class Team>
FEDGRAB_DEVICE void make_histogram(const Team& team, Canvas& canvas) {
  const int32_t plane = canvas.plane();
  team.each(canvas.channels * 256, [&](int32_t i) { canvas.bins[i] = 0; });
  team.each(plane, [&](int32_t i) {
    for (int32_t c = 0; c < canvas.channels; ++c) team.count(canvas.bins[c * 256 + canvas.pixels[c * plane + i]]);
  });
}

/// Replaces each byte by what `bins` has for it, per channel.
template <class Team>
FEDGRAB_DEVICE void look_up(const Team& team, Canvas& canvas) {
  const int32_t plane = canvas.plane();
  team.each(plane, [&](int32_t i) {
    for (int32_t c = 0; c < canvas.channels; ++c) {
      uint8_t& value = canvas.pixels[c * plane + i];
      value = static_cast<uint8_t>(canvas.bins[c * 256 + value]);
    }
  });
}

/// Stretches each channel to 0 … 255.
template <class Team>
FEDGRAB_DEVICE void autocontrast(const Team& team, Canvas& canvas) {
  make_histogram(team, canvas);
  team.each(canvas.channels, [&](int32_t channel) {
    uint32_t* const bins = canvas.bins + size_t{256} * static_cast<size_t>(channel);
    int32_t low = 0, high = 255;
    while (low < high && bins[low] == 0) ++low;
    while (low < high && bins[high] == 0) --high;
    const bool flat = low == high;
    const float minimum = flat ? 0.0F : static_cast<float>(low);
    // torch computes 255 / range as (1 / range) · 255.
    const float scale = flat ? 1.0F : multiply(divide(1.0F, static_cast<float>(high - low)), 255.0F);
    for (int32_t value = 0; value < 256; ++value)
      bins[value] = to_byte(multiply(static_cast<float>(value) - minimum, scale));
  });
  look_up(team, canvas);
}

/// Makes the histogram of each channel as even as it gets.
template <class Team>
FEDGRAB_DEVICE void equalize(const Team& team, Canvas& canvas) {
  make_histogram(team, canvas);
  team.each(canvas.channels, [&](int32_t channel) {
    uint32_t* const bins = canvas.bins + size_t{256} * static_cast<size_t>(channel);
    int32_t last = 255;
    while (last > 0 && bins[last] == 0) --last;
    const uint32_t step = (static_cast<uint32_t>(canvas.plane()) - bins[last]) / 255;
    uint32_t below = 0;
    for (uint32_t value = 0; value < 256; ++value) {
      const uint32_t here = bins[value];
      const uint32_t level = step == 0 ? value : (below + step / 2) / step;
      bins[value] = level < 255 ? level : 255;
      below += here;
    }
  });
  look_up(team, canvas);
}

}  // namespace fedgrab
