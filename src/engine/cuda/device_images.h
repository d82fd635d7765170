#pragma once

#include <torch/torch.h>

#include "fedgrab/data/dataset.h"
#include "kernels.h"

namespace fedgrab::cuda {

/// A data set on the device: its bytes, or, where it is `streamed`, all but those.
struct DeviceImages {
  torch::Tensor pixels, labels, table;
  BatchSource source{};
  bool streamed;

  DeviceImages(const Split& split, const Normalisation& normalisation, const Augmentation& augmentation,
               bool stream_it);
};

}  // namespace fedgrab::cuda
