/// The decoders behind read_image, each from the bytes of a whole file. `file` is the name for messages.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fedgrab/data/image.h"

namespace fedgrab {

using MaybeLevels = std::optional<Levels>;

Image decode_png(std::span<const uint8_t> bytes, const std::string& file, MaybeLevels levels = {});
/// `enough` as in read_image.
Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& file, int64_t enough);
/// PGM and PPM, plain (P2, P3) or raw (P5, P6).
Image decode_pnm(std::span<const uint8_t> bytes, const std::string& file, MaybeLevels levels = {});

// Built only where their libraries are; elsewhere they throw and name the package.
/// Of several pages none is chosen: such a file is refused, reduced copies and masks aside.
Image decode_tiff(std::span<const uint8_t> bytes, const std::string& file, MaybeLevels levels = {});
/// Refuses animations.
Image decode_webp(std::span<const uint8_t> bytes, const std::string& file);
/// One frame, as DCMTK renders it: through the first window of the file or else its first VOI table. Without either,
/// the lowest and highest value of more than 8 bits become black and white, and 8 bits stay as they are. Overlays are
/// left out.
Image decode_dicom(std::span<const uint8_t> bytes, const std::string& file, MaybeLevels levels = {});

/// Throws Error(Fault::data).
[[noreturn]] void unreadable(const std::string& file, std::string_view format, std::string_view why,
                             std::string_view hint = "replace or remove it");
/// Of a format whose library was absent when fedgrab was built.
[[noreturn]] void not_built_in(const std::string& file, std::string_view format, std::string_view package);

/// The byte of a value, rounded.
uint8_t to_byte(double value, Levels levels);

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

/// Pixels of grey + alpha or colour + alpha to the same without alpha.
std::vector<uint8_t> laid_on_black(std::span<const uint8_t> pixels, size_t channels);

}  // namespace fedgrab
