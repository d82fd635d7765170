#include "fedgrab/data/longtail.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fedgrab/core/error.h"
#include "fedgrab/core/random.h"

namespace fedgrab {
namespace {

std::vector<std::vector<int64_t>> indices_by_class(std::span<const int32_t> labels, int64_t classes) {
  std::vector<std::vector<int64_t>> by_class(static_cast<size_t>(classes));
  for (size_t i = 0; i < labels.size(); ++i)
    by_class.at(static_cast<size_t>(labels[i])).push_back(static_cast<int64_t>(i));
  return by_class;
}

std::vector<int64_t> all_indices(size_t count) {
  std::vector<int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

}  // namespace

std::vector<int64_t> long_tail_counts(const LongTailParams& params, int64_t n, int64_t classes) {
  const auto size = static_cast<double>(n);
  const auto rare_classes = static_cast<int64_t>(std::llround(params.step_fraction * static_cast<double>(classes)));
  std::vector<int64_t> counts;
  for (int64_t c = 0; c < classes; ++c) {
    double share = 1.0;
    // Spelled as the usual Python, (1/IF)**(c/(M-1)): another order of the operations rounds some counts differently.
    if (params.kind == LongTailKind::step)
      share = c < classes - rare_classes ? 1.0 : 1.0 / params.factor;
    else if (params.kind != LongTailKind::none && classes > 1)
      share = std::pow(1.0 / params.factor, static_cast<double>(c) / static_cast<double>(classes - 1));
    counts.push_back(std::max<int64_t>(1, static_cast<int64_t>(size * share)));
  }
  return counts;
}

std::vector<int64_t> sample_long_tail(const LongTailParams& params, std::span<const int32_t> labels, int64_t classes,
                                      bool balanced, uint64_t seed) {
  if (params.kind == LongTailKind::none || (params.kind == LongTailKind::automatic && !balanced))
    return all_indices(labels.size());

  const auto by_class = indices_by_class(labels, classes);
  int64_t n = params.max;
  if (n == 0)
    for (const auto& members : by_class) n = std::max(n, static_cast<int64_t>(members.size()));
  const auto counts = long_tail_counts(params, n, classes);

  std::vector<int64_t> chosen;
  for (size_t c = 0; c < by_class.size(); ++c) {
    const auto available = static_cast<int64_t>(by_class[c].size());
    if (counts[c] > available)
      throw Error(Fault::data, "longtail",
                  fmt::format("class {} needs {} images but has only {}", c, counts[c], available),
                  "try a smaller longtail.max, a larger longtail.factor or longtail.kind = \"none\"");
    if (params.order == LongTailOrder::file) {
      chosen.insert(chosen.end(), by_class[c].begin(), by_class[c].begin() + counts[c]);
    } else {
      const auto order = permutation(available, Random(seed, Purpose::long_tail, static_cast<uint32_t>(c)));
      for (int64_t k = 0; k < counts[c]; ++k)
        chosen.push_back(by_class[c][static_cast<size_t>(order[static_cast<size_t>(k)])]);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace fedgrab
