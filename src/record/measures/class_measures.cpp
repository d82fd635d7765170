#include "class_measures.h"

namespace fedgrab {

void add_class_measures(MeasureValues& values, std::span<const int32_t> labels, std::span<const int32_t> answers,
                        Weights weights, int64_t classes) {
  const auto m = static_cast<size_t>(classes);
  std::vector<int64_t> right(m), images(m), answered(m);
  int64_t all = 0, all_right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto truth = static_cast<size_t>(labels[i]), answer = static_cast<size_t>(answers[i]);
    images[truth] += weights[i];
    answered[answer] += weights[i];
    all += weights[i];
    if (truth != answer) continue;
    right[truth] += weights[i];
    all_right += weights[i];
  }
  if (all == 0) return;
  double recalls = 0, f1 = 0;
  int64_t present = 0, named = 0;
  for (size_t c = 0; c < m; ++c) {
    named += images[c] + answered[c] > 0 ? 1 : 0;
    present += images[c] > 0 ? 1 : 0;
  }
  for (size_t c = 0; c < m; ++c) {
    const auto hits = static_cast<double>(right[c]);
    if (images[c] > 0) recalls += hits / static_cast<double>(images[c]);
    // Divided one by one: so it was recorded since version 0.1, to the last bit.
    if (images[c] + answered[c] > 0)
      f1 += 2 * hits / static_cast<double>(images[c] + answered[c]) / static_cast<double>(named);
  }
  values[Measure::accuracy] = static_cast<double>(all_right) / static_cast<double>(all);
  values[Measure::balanced_accuracy] = recalls / static_cast<double>(present);
  values[Measure::macro_f1] = f1;
}

}  // namespace fedgrab
