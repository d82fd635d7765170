/// Mixes the batches of a run, see mix.h: the tables of both operations, and the CPU's pass over the images.
#pragma once

#include <cstdint>
#include <vector>

#include "fedgrab/core/random.h"
#include "fedgrab/data/dataset.h"
#include "fedgrab/data/mix.h"

namespace fedgrab {

/// The quantiles of Beta(α, α) at (k + 1/2)/n for k = 0 … n − 1, n even.
std::vector<double> beta_quantiles(double alpha, int n);

/// The mixing of a run: α of mixup and of cutmix, 0 where it is off.
class BatchMixer {
 public:
  BatchMixer(double mixup, double cutmix);

  bool on() const { return !mixup_.empty() || !cutmix_.empty(); }
  const std::vector<float>& mixup() const { return mixup_; }
  const std::vector<float>& cutmix() const { return cutmix_; }
  /// Of the step that `random` stands for. A batch of one image stays as it is.
  Mix choose(const Random& random, int64_t count, ImageShape shape) const;

 private:
  std::vector<float> mixup_, cutmix_;
};

/// Mixes `count` normalised images in place.
void mix_batch(const Mix& mix, int64_t count, ImageShape shape, float* images);

}  // namespace fedgrab
