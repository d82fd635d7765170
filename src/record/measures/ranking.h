/// The images ranked by the score of one class: its ROC curve, one against the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fedgrab {

struct RocPoint {
  double auroc = 0;
  double sensitivity = 0;  // the largest at the required specificity
};

class Ranking {
 public:
  /// By descending score; no threshold separates images of equal score. Fewer than 2^30 images.
  Ranking(std::span<const double> scores, std::span<const int32_t> labels, int32_t positive);

  /// None where the weights leave no image of the class, or none of the others.
  std::optional<RocPoint> roc(std::span<const int32_t> weights, double specificity) const;

 private:
  struct Place {
    uint32_t image : 30, positive : 1, last_of_ties : 1;
  };
  std::vector<Place> places_;
};

}  // namespace fedgrab
