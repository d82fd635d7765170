/// The filter behind resize(), for planes that are part of a larger image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fedgrab {

/// Bilinear with anti-aliasing when shrinking, from one size to another. Made once, used on every plane of that size.
class Resampler {
 public:
  Resampler(int64_t height, int64_t width, int64_t to_height, int64_t to_width);

  /// One direction: `source` pixels become `target`, of which only `count` from `first` on are wanted.
  struct Axis {
    int64_t source, target, first, count;
  };
  Resampler(Axis down, Axis across);

  /// `stride`: from one row of the source to the next.
  void operator()(const uint8_t* plane, size_t stride, uint8_t* out);

 private:
  /// Each target pixel is a weighted sum of `taps` neighbouring source pixels.
  struct Filter {
    explicit Filter(Axis axis);
    size_t taps;
    std::vector<size_t> first;
    std::vector<float> weights;  // `taps` for each target, sum 1
  };

  Filter down_, across_;
  std::vector<float> row_;  // of the source's width
};

}  // namespace fedgrab
