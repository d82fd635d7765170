/// torchvision's RandomResizedCrop. It reads the stored image, beyond what the model sees, so it is done there: see
/// place(). It can only begin a list.
#pragma once

#include "fedgrab/data/augment.h"
#include "fedgrab/data/augment/canvas.h"

namespace fedgrab {

struct ResizedCrop {
  static constexpr const char* name = "resized-crop";
  static Operation make(const OperationSetup&) { return {}; }

  template <class Team>
  FEDGRAB_DEVICE static void apply(const Team&, Canvas&, const Operation&, const OperationWords&) {}
};

}  // namespace fedgrab
