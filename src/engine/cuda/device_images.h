#pragma once

#include <torch/torch.h>

#include <array>

#include "fedgrab/data/dataset.h"
#include "kernels.h"

namespace fedgrab::cuda {

/// A data set on the device: its bytes, or, where it is `streamed`, all but those.
struct DeviceImages {
  torch::Tensor pixels, labels, table, scratch;
  BatchSource source{};
  bool streamed;

  DeviceImages(const Split& split, const Normalisation& normalisation, const Augmentation& augmentation,
               bool stream_it);

  /// To make batches of a view of the samples; `source` makes those of the first.
  BatchSource of_view(uint32_t view) const;

 private:
  std::array<OperationList, 2> lists_;
};

}  // namespace fedgrab::cuda
