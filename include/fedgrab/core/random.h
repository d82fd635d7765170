/// Random numbers as a function of (seed, purpose, three coordinates, position), never of who drew first.
/// The generator is Philox4x32-10 (Salmon et al. 2011); a CUDA kernel can evaluate the same function.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

namespace fedgrab {

/// Keeps streams of different use apart. Values are part of every recorded result: append, never renumber.
enum class Purpose : uint32_t {
  initialise = 1,
  long_tail,
  split,
  partition,
  cohort,
  shuffle,
  augment,
  gate,
  noise,
  synthetic,
  dropout,
  averaging,
  sampling,
  server,
  mix,
  bootstrap,
  privacy,
};

using PhiloxBlock = std::array<uint32_t, 4>;

/// One block of ten Philox rounds.
PhiloxBlock philox(PhiloxBlock counter, uint64_t key);

/// A stream of numbers at the point (a, b, c), usually (client, round, step).
class Random {
 public:
  explicit Random(uint64_t seed, Purpose purpose, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0);

  /// Random access: the block at `position`, without moving the stream.
  PhiloxBlock block(uint32_t position) const;
  /// The block at (a, b, `c`) instead.
  PhiloxBlock block(uint32_t position, uint32_t c) const;
  /// Philox's key of the seed and purpose, for a device that evaluates the function itself.
  uint64_t key() const { return key_; }

  uint32_t bits();
  uint64_t bits64();
  /// Uniform on [0, 1), 24 bits: exact in float, the same on every device.
  float uniform();
  /// Uniform on [0, n), unbiased.
  uint64_t below(uint64_t n);
  double normal();
  /// Gamma(shape, 1), Marsaglia and Tsang (2000), boosted below shape 1.
  double gamma(double shape);

 private:
  uint64_t key_;
  PhiloxBlock counter_;  // [0] is the position
  PhiloxBlock buffer_{};
  uint32_t used_ = 4;
};

/// The 24 leading bits of a word as a float in [0, 1).
inline float to_unit(uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24F; }

/// A permutation of 0..n-1: indices sorted by a random key each, so that a device can compute it in parallel.
std::vector<int64_t> permutation(int64_t n, const Random& random);
/// The first `count` of it, without sorting the rest.
std::vector<int64_t> permutation_start(int64_t n, int64_t count, const Random& random);

}  // namespace fedgrab
