#include "fedgrab/data/batch_mixer.h"

#include <algorithm>
#include <cmath>

namespace fedgrab {
namespace {

/// As std::lgamma, which writes the sign into a variable that all threads share.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

/// The regularised incomplete beta function I_x(α, α) for x ≤ 1/2, by Lentz's continued fraction (Numerical Recipes,
/// 6.4).
class SymmetricBeta {
 public:
  explicit SymmetricBeta(double alpha)
      : alpha_(alpha), log_beta_(2 * log_gamma(alpha) - log_gamma(2 * alpha) + std::log(alpha)) {}

  double operator()(double x) const {
    return std::exp(alpha_ * (std::log(x) + std::log1p(-x)) - log_beta_) * fraction(x);
  }

 private:
  double fraction(double x) const {
    constexpr int most_terms = 500;
    constexpr double tiny = 1e-300, precision = 1e-14;
    const auto away_from_zero = [](double value) { return std::abs(value) < tiny ? tiny : value; };
    double c = 1, d = 1 / away_from_zero(1 - 2 * alpha_ * x / (alpha_ + 1)), h = d;
    for (int m = 1; m < most_terms; ++m) {
      const double even = m * (alpha_ - m) * x / ((alpha_ + 2 * m - 1) * (alpha_ + 2 * m));
      d = 1 / away_from_zero(1 + even * d);
      c = away_from_zero(1 + even / c);
      h *= d * c;
      const double odd = -(alpha_ + m) * (2 * alpha_ + m) * x / ((alpha_ + 2 * m) * (alpha_ + 2 * m + 1));
      d = 1 / away_from_zero(1 + odd * d);
      c = away_from_zero(1 + odd / c);
      h *= d * c;
      if (std::abs(d * c - 1) < precision) break;
    }
    return h;
  }

  double alpha_, log_beta_;  // log(α B(α, α))
};

}  // namespace

std::vector<double> beta_quantiles(double alpha, int n) {
  const SymmetricBeta cdf(alpha);
  std::vector<double> quantiles(static_cast<size_t>(n));
  double low = 0;
  for (int k = 0; k < n / 2; ++k) {
    const double wanted = (k + 0.5) / n;
    double high = 0.5;
    for (double middle = (low + high) / 2; middle > low && middle < high; middle = (low + high) / 2) {
      if (high - low < 1e-12) break;
      (cdf(middle) < wanted ? low : high) = middle;
    }
    quantiles[static_cast<size_t>(k)] = low;
    quantiles[static_cast<size_t>(n - 1 - k)] = 1 - low;
  }
  return quantiles;
}

BatchMixer::BatchMixer(double mixup, double cutmix) {
  if (mixup > 0)
    for (const double share : beta_quantiles(mixup, MixTables::entries)) mixup_.push_back(static_cast<float>(share));
  if (cutmix > 0)
    for (const double share : beta_quantiles(cutmix, MixTables::entries))
      cutmix_.push_back(static_cast<float>(std::sqrt(1 - share) / 2));
}

Mix BatchMixer::choose(const Random& random, int64_t count, ImageShape shape) const {
  const MixTables tables{mixup_.empty() ? nullptr : mixup_.data(), cutmix_.empty() ? nullptr : cutmix_.data()};
  if ((tables.mixup == nullptr && tables.cutmix == nullptr) || count < 2) return {};
  const PhiloxBlock block = random.block(0);
  const uint32_t words[4] = {block[0], block[1], block[2], block[3]};
  return choose_mix(tables, words, static_cast<int32_t>(shape.height), static_cast<int32_t>(shape.width));
}

void mix_batch(const Mix& mix, int64_t count, ImageShape shape, float* images) {
  if (mix.share == 1.0F) return;
  const int64_t size = shape.size();
  const std::vector<float> first(images, images + size);  // it is mixed before the last image needs it
  for (int64_t i = 0; i < count; ++i) {
    float* const own = images + i * size;
    const float* const other = i + 1 < count ? own + size : first.data();
    if (!mix.cut) {
      for (int64_t at = 0; at < size; ++at) own[at] = mix.blend(own[at], other[at]);
      continue;
    }
    for (int64_t c = 0; c < shape.channels; ++c)
      for (int32_t y = mix.top; y < mix.bottom; ++y) {
        const int64_t row = (c * shape.height + y) * shape.width;
        std::copy(other + row + mix.left, other + row + mix.right, own + row + mix.left);
      }
  }
}

}  // namespace fedgrab
