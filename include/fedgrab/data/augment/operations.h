/// The registry of image operations: a line here, and the operation is read from data.augment and runs on the CPU and
/// on CUDA. An operation is a struct with
///   name                                   of data.augment
///   make(setup)                            the operation with its parameter
///   apply(team, canvas, operation, words)  changes the image; canvas.h says how to write it
#pragma once

#include <type_traits>

#include "fedgrab/data/augment/auto_augment.h"
#include "fedgrab/data/augment/crop.h"
#include "fedgrab/data/augment/cutout.h"
#include "fedgrab/data/augment/flip.h"
#include "fedgrab/data/augment/rand_augment.h"
#include "fedgrab/data/augment/resized_crop.h"
#include "fedgrab/data/augment/trivial_augment.h"

namespace fedgrab {

template <class... Kinds>
struct OperationKinds {};

using ImageOperations = OperationKinds<  //
    Crop,                                //
    Flip,                                //
    ResizedCrop,                         //
    Cutout,                              //
    TrivialAugment,                      //
    RandAugment,                         //
    AutoAugment>;

template <class Kind, class First, class... Rest>
constexpr int32_t index_of(OperationKinds<First, Rest...> /*list*/) {
  if constexpr (std::is_same_v<Kind, First>)
    return 0;
  else
    return 1 + index_of<Kind>(OperationKinds<Rest...>{});
}
/// Operation::kind of an operation.
template <class Kind>
constexpr int32_t kind_of = index_of<Kind>(ImageOperations{});

/// Random words of the operation at `index` of the list: counter word 1 of the image's stream. Crops and flips draw
/// from word `view`, so that they are the same whatever else the list has.
FEDGRAB_DEVICE inline uint32_t counter_of(uint32_t view, const Operation& operation, int32_t index) {
  const bool crop_or_flip = operation.kind == kind_of<Crop> || operation.kind == kind_of<Flip>;
  return crop_or_flip ? view : view + 256 * static_cast<uint32_t>(index + 1);
}

template <class Team, class... Kinds>
FEDGRAB_DEVICE void apply_operation(OperationKinds<Kinds...> /*list*/, const Team& team, Canvas& canvas,
                                    const Operation& operation, const OperationWords& words) {
  (void)((operation.kind == kind_of<Kinds> && (Kinds::apply(team, canvas, operation, words), true)) || ...);
}

/// The operations from `first` on. words_at(counter) gives the random words of this image.
template <class Team, class WordsAt>
FEDGRAB_DEVICE void apply_operations(const Team& team, Canvas& canvas, const OperationList& list, int32_t first,
                                     uint32_t view, WordsAt&& words_at) {
  for (int32_t i = first; i < list.count; ++i)
    apply_operation(ImageOperations{}, team, canvas, list.items[i], words_at(counter_of(view, list.items[i], i)));
}

}  // namespace fedgrab
