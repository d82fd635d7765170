/// From sample indices to the floats a network reads: crop, resize, flip, further operations, normalise.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fedgrab/core/random.h"
#include "fedgrab/data/dataset.h"

namespace fedgrab {

/// Random crop and flip of one sample, from one block of random words: a device computes the same.
struct Placement {
  int64_t dy = 0, dx = 0;  // where the crop starts, in pixels of the unpadded image
  bool flip = false;
  int64_t height = 0, width = 0;  // of a crop that is resized to the shape of the images; 0: it has that shape
};
Placement place(const CropAndFlip& rule, const Images& images, const PhiloxBlock& words);

/// Every byte of a channel already normalised: the same float for the same byte whatever the compiler fuses, on every
/// device.
using ByteTable = std::array<float, 256>;
std::vector<ByteTable> byte_tables(const Normalisation& normalisation, int64_t channels);

/// Writes image `i` into `out` (channels × height × width floats). What the crop takes from outside the image is black,
/// as torchvision's RandomCrop does it.
void write_sample(const Images& images, int64_t i, const Placement& placement, const Normalisation& normalisation,
                  float* out);

/// One plain epoch position: sample `indices[k]` is augmented from the blocks of `random` at first_position + k.
/// Another `view` of the same samples draws other numbers, and takes the operations of augmentation.of_view(view).
void write_batch(const Images& images, std::span<const int64_t> indices, const Augmentation& augmentation,
                 const Normalisation& normalisation, const Random& random, uint32_t first_position, float* out,
                 uint32_t view = 0);

/// Without augmentation.
void write_batch(const Images& images, std::span<const int64_t> indices, const Normalisation& normalisation,
                 float* out);

}  // namespace fedgrab
