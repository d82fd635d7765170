/// The orientation of an image: cameras store it as the sensor had it, and a tag says how to turn it.
#pragma once

#include <cstdint>
#include <span>

#include "fedgrab/data/image.h"

namespace fedgrab {

/// The orientation tag, 1 to 8, in the Exif data of a whole JPEG, PNG or WebP file; 1, upright, where there is none.
int exif_orientation(std::span<const uint8_t> file);

/// Turned and mirrored by the tag. Other numbers than 2 to 8 leave the image as it is.
Image upright(Image image, int orientation);

}  // namespace fedgrab
