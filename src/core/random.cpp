#include "fedgrab/core/random.h"

#include <algorithm>
#include <cmath>

namespace fedgrab {
namespace {

// SplitMix64 finaliser: spreads seed and purpose over the whole key.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

PhiloxBlock philox(PhiloxBlock counter, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

Random::Random(uint64_t seed, Purpose purpose, uint32_t a, uint32_t b, uint32_t c)
    : key_(mix(mix(seed) + static_cast<uint64_t>(purpose))), counter_{0, c, b, a} {}

PhiloxBlock Random::block(uint32_t position) const { return block(position, counter_[1]); }

PhiloxBlock Random::block(uint32_t position, uint32_t c) const {
  return philox({position, c, counter_[2], counter_[3]}, key_);
}

uint32_t Random::bits() {
  if (used_ == buffer_.size()) {
    buffer_ = block(counter_[0]++);
    used_ = 0;
  }
  return buffer_.at(used_++);
}

uint64_t Random::bits64() {
  const uint64_t high = bits();
  return (high << 32) | bits();
}

float Random::uniform() { return to_unit(bits()); }

uint64_t Random::below(uint64_t n) {
  const uint64_t limit = UINT64_MAX - UINT64_MAX % n;  // the largest multiple of n: no remainder is favoured
  uint64_t draw = bits64();
  while (draw >= limit) draw = bits64();
  return draw % n;
}

double Random::normal() {
  // Box-Muller; 1 - u keeps the logarithm away from zero.
  const double u = 1.0 - static_cast<double>(bits64() >> 11) * 0x1.0p-53;
  const double v = static_cast<double>(bits64() >> 11) * 0x1.0p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * v);
}

double Random::gamma(double shape) {
  if (shape < 1.0) {
    const double u = 1.0 - static_cast<double>(bits64() >> 11) * 0x1.0p-53;
    return gamma(shape + 1.0) * std::pow(u, 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0.0) continue;
    const double u = 1.0 - static_cast<double>(bits64() >> 11) * 0x1.0p-53;
    if (std::log(u) < 0.5 * x * x + d * (1.0 - v + std::log(v))) return d * v;
  }
}

std::vector<int64_t> permutation(int64_t n, const Random& random) { return permutation_start(n, n, random); }

std::vector<int64_t> permutation_start(int64_t n, int64_t count, const Random& random) {
  std::vector<uint64_t> keys(static_cast<size_t>(n));
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t word = random.block(static_cast<uint32_t>(i / 4))[i % 4];
    keys[i] = (word << 32) | i;  // the index breaks ties
  }
  if (count < n) std::nth_element(keys.begin(), keys.begin() + count, keys.end());
  keys.resize(static_cast<size_t>(count));
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> order(keys.size());
  std::transform(keys.begin(), keys.end(), order.begin(),
                 [](uint64_t key) { return static_cast<int64_t>(key & 0xFFFFFFFFU); });
  return order;
}

}  // namespace fedgrab
