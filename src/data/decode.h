/// The decoders behind read_image, each from the bytes of a whole file. `file` is the name for messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "fedgrab/data/image.h"

namespace fedgrab {

Image decode_png(std::span<const uint8_t> bytes, const std::string& file);
/// `enough` as in read_image.
Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& file, int64_t enough);
/// PGM and PPM, plain (P2, P3) or raw (P5, P6).
Image decode_pnm(std::span<const uint8_t> bytes, const std::string& file);

/// Throws Error(Fault::data).
[[noreturn]] void unreadable(const std::string& file, std::string_view format, std::string_view why);

/// Refuses empty images and those that no data set has but a damaged header may announce.
void check_dimensions(const std::string& file, std::string_view format, uint64_t height, uint64_t width);

/// Pixel by pixel (row, column, channel) to planes.
Image to_planes(ImageShape shape, std::span<const uint8_t> pixels);

}  // namespace fedgrab
