/// Cuts a long-tailed training set out of a balanced one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class LongTailKind { automatic, exponential, step, none };
template <>
inline constexpr auto enum_names<LongTailKind> = names("auto", "exponential", "step", "none");

enum class LongTailOrder { seed, file };
template <>
inline constexpr auto enum_names<LongTailOrder> = names("seed", "file");

struct LongTailParams {
  LongTailKind kind = LongTailKind::automatic;
  double factor = 50;
  int64_t max = 0;
  double step_fraction = 0.5;
  LongTailOrder order = LongTailOrder::seed;
  int64_t validation = 0;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("kind", kind,
            "profile of the class sizes; auto: exponential for balanced benchmarks, none for your own data");
    v.param("factor", factor, "imbalance factor: size of the largest class divided by that of the smallest")
        .between(1, 1e6);
    v.param("max", max, "images of the largest class (0: all)").at_least(0);
    v.param("step_fraction", step_fraction, "step profile: fraction of the classes that are rare").between(0, 1);
    v.param("order", order, "which images of a class are kept: drawn by the seed, or the first in the file");
    v.param("validation", validation,
            "validation images per class, from training images that the long tail leaves unused: a balanced validation "
            "split for benchmarks; needs a longtail.max below the size of the largest class")
        .at_least(0);
  }
};

/// n_c = floor(n · IF^(−c/(M−1))), or n and n/IF for the step profile.
std::vector<int64_t> long_tail_counts(const LongTailParams& params, int64_t n, int64_t classes);

/// Indices of the chosen training samples, ascending. `balanced` resolves kind auto. Throws Error(Fault::data) when a
/// class has fewer images than its profile needs.
std::vector<int64_t> sample_long_tail(const LongTailParams& params, std::span<const int32_t> labels, int64_t classes,
                                      bool balanced, uint64_t seed);

}  // namespace fedgrab
