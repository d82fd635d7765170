/// One image file to bytes: PNG, JPEG, TIFF, WebP, DICOM, PPM/PGM, grey or colour, any size.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "fedgrab/data/dataset.h"

namespace fedgrab {

/// Of the memory that decoding may take in all: a small file may hold an image of gigabytes, and every core decodes
/// one.
using MemoryShare = std::shared_ptr<const void>;

struct Image {
  ImageShape shape;            // channels 1 or 3
  std::vector<uint8_t> bytes;  // planes
  int64_t reduced = 1;         // the file has so many times the height and width, or a few pixels less
  MemoryShare memory{};        // of read_image: while one thread keeps it, others may wait, so resize the image soon
};

/// The values of more than 8 bits that become 0 and 255; what lies beyond is clipped.
struct Levels {
  double black, white;
};

/// By content, not by name. 16-bit is reduced to 8, by `levels` where given. Transparency is laid on black, palettes
/// are expanded, and the orientation tag of a camera is applied. Throws Error(Fault::data) naming the file when it is
/// not a readable image. With `enough`, a JPEG is decoded at a half, a quarter or an eighth of its size where its
/// shorter side keeps that many pixels, which takes a fraction of the time.
Image read_image(const std::filesystem::path& path, int64_t enough = 0, std::optional<Levels> levels = {});

/// True for the file names that read_image is worth trying on.
bool looks_like_image(const std::filesystem::path& path);

/// True for these names, and for files of other names that begin as an image does: archives of DICOM files often have
/// names without an ending. False for hidden files and for DICOMDIR, the index of such an archive.
bool is_image_file(const std::filesystem::path& path);

/// Bilinear with anti-aliasing when shrinking, as Pillow's BILINEAR: agrees with it to within two levels.
Image resize(const Image& image, int64_t height, int64_t width);

/// torchvision's Resize(side) and CenterCrop(side): the shorter side becomes `side`, what the longer has beyond it is
/// cut off on both ends.
Image centre_square(const Image& image, int64_t side);

/// 1 to 3 repeats the plane; 3 to 1 is ITU-R 601 luma, as Pillow's convert("L").
Image with_channels(const Image& image, int64_t channels);

}  // namespace fedgrab
