/// Where a run takes its estimate of the global class prior from, and on which scale parts read it.
#pragma once

#include <string>
#include <vector>

#include "fedgrab/core/enums.h"

namespace fedgrab {

/// share sums to 1; span is linear onto [span_min, 1]; rank is a geometric profile from 1 to span_min in the order of
/// the values: it uses the order only.
enum class PriorScale { share, span, rank };
template <>
inline constexpr auto enum_names<PriorScale> = names("share", "span", "rank");

struct PriorParams {
  std::string source = "none";
  PriorScale scale = PriorScale::span;
  double span_min = 0.1;
  std::vector<double> fixed;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("source", source,
            "estimator of the global class prior: weight norms of a classifier (dpa), a bias trained on labels alone "
            "(bias-probe), counts that every client reveals once (counts), prior.fixed (fixed), or none");
    v.param("scale", scale,
            "scale for SGB's gate and, with dpa, for class sizes: sum 1 (share), linear onto [span_min, 1] (span), or "
            "geometric from 1 to span_min by rank (rank)");
    v.param("span_min", span_min, "smallest value of the scales span and rank").between(0, 1);
    v.param("fixed", fixed,
            "source = fixed: prior by class, not scaled (empty: 0.1^(c/(M-1)), which assumes that class 0 is the most "
            "common and the last class the rarest)")
        .between(0, 1);
  }
};

}  // namespace fedgrab
