#include "fedgrab/data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "decode.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t most_bytes = uint64_t{1} << 30;

bool starts_with(std::span<const uint8_t> bytes, std::initializer_list<uint8_t> magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

}  // namespace

void unreadable(const std::string& file, std::string_view format, std::string_view why) {
  throw Error(Fault::data, file, fmt::format("cannot be read as {}: {}", format, why), "replace or remove it");
}

MemoryShare share_of_memory(const std::string& file, std::string_view format, uint64_t height, uint64_t width,
                            uint64_t bytes_per_pixel) {
  constexpr uint64_t most_pixels = uint64_t{1} << 28;
  if (height == 0 || width == 0 || width > most_pixels / height)
    unreadable(file, format, fmt::format("{} x {} pixels", width, height));
  const uint64_t bytes = height * width * bytes_per_pixel;
  if (bytes > most_bytes)
    unreadable(file, format, fmt::format("{} x {} pixels, {} MiB in memory", width, height, bytes >> 20U));
  static MemoryBudget budget(most_bytes);
  return budget.take(bytes);
}

MemoryShare MemoryBudget::take(uint64_t bytes) {
  std::unique_lock lock(guard_);
  freed_.wait(lock, [&] { return taken_ == 0 || taken_ + bytes <= total_; });
  taken_ += bytes;
  return {this, [bytes](MemoryBudget* budget) {
            {
              const std::lock_guard given_back(budget->guard_);
              budget->taken_ -= bytes;
            }
            budget->freed_.notify_all();
          }};
}

Image to_planes(ImageShape shape, std::span<const uint8_t> pixels) {
  Image image{shape, std::vector<uint8_t>(static_cast<size_t>(shape.size()))};
  const auto channels = static_cast<size_t>(shape.channels);
  const size_t plane = image.bytes.size() / channels;
  for (size_t channel = 0; channel < channels; ++channel)
    for (size_t i = 0; i < plane; ++i) image.bytes[channel * plane + i] = pixels[i * channels + channel];
  return image;
}

Image read_image(const std::filesystem::path& path, int64_t enough) {
  const std::string file = path.string();
  std::error_code none;
  if (fs::is_regular_file(path, none) && fs::file_size(path, none) > most_bytes)
    throw Error(Fault::data, file, "is larger than any image", "replace or remove it");
  const auto bytes = read_bytes(path);
  if (starts_with(bytes, {0x89, 'P', 'N', 'G'})) return decode_png(bytes, file);
  if (starts_with(bytes, {0xFF, 0xD8})) return decode_jpeg(bytes, file, enough);
  for (const uint8_t kind : {'2', '3', '5', '6'})
    if (starts_with(bytes, {'P', kind})) return decode_pnm(bytes, file);
  throw Error(Fault::data, file, bytes.empty() ? "is empty" : "is not a PNG, JPEG, PPM or PGM image",
              "replace or remove it");
}

bool looks_like_image(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 6> endings = {".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".pnm"};
  if (path.filename().string().starts_with('.')) return false;  // what file managers leave behind
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

Image with_channels(const Image& image, int64_t channels) {
  if (channels == image.shape.channels) return {image.shape, image.bytes, image.reduced};
  ImageShape shape = image.shape;
  shape.channels = channels;
  Image result{shape, {}};
  result.bytes.reserve(static_cast<size_t>(shape.size()));
  if (channels == 3) {
    for (int repeat = 0; repeat < 3; ++repeat)
      result.bytes.insert(result.bytes.end(), image.bytes.begin(), image.bytes.end());
    return result;
  }
  const size_t plane = image.bytes.size() / 3;
  for (size_t i = 0; i < plane; ++i) {
    // 0.299, 0.587 and 0.114 in 16-bit fixed point, as Pillow has them.
    const uint32_t luma =
        image.bytes[i] * 19595U + image.bytes[plane + i] * 38470U + image.bytes[2 * plane + i] * 7471U + 0x8000U;
    result.bytes.push_back(static_cast<uint8_t>(luma >> 16));
  }
  return result;
}

}  // namespace fedgrab
