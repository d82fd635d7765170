/// The decoders behind read_image, each from the bytes of a whole file. `file` is the name for messages.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
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

/// Bytes that several threads share.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t total) : total_(total) {}
  /// Waits until they are free. What exceeds the total waits until it is alone.
  MemoryShare take(uint64_t bytes);

 private:
  const uint64_t total_;
  uint64_t taken_ = 0;
  std::mutex guard_;
  std::condition_variable freed_;
};

/// Refuses empty images and those that no data set has but a damaged header may announce: more than 2^28 pixels, or
/// more than 1 GiB to decode. Else waits until all images in decoding together need no more than that, however many
/// threads decode, and gives back the share of this one, which ends when the last copy is destroyed.
MemoryShare share_of_memory(const std::string& file, std::string_view format, uint64_t height, uint64_t width,
                            uint64_t bytes_per_pixel);

/// Pixel by pixel (row, column, channel) to planes.
Image to_planes(ImageShape shape, std::span<const uint8_t> pixels);

}  // namespace fedgrab
