#include "fedgrab/data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fstream>

#include "decode.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "paths.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t most_bytes = uint64_t{1} << 30;

enum class Format { unknown, png, jpeg, tiff, webp, dicom, pnm };
constexpr size_t magic_bytes = 132;  // that many are enough for format_of

Format format_of(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto has = [&](size_t at, std::string_view magic) {
    return text.size() >= at + magic.size() && text.substr(at, magic.size()) == magic;
  };
  if (has(0, "\x89PNG")) return Format::png;
  if (has(0, "\xFF\xD8")) return Format::jpeg;
  for (const char* magic : {"II*\0", "MM\0*", "II+\0", "MM\0+"})
    if (has(0, {magic, 4})) return Format::tiff;
  if (has(0, "RIFF") && has(8, "WEBP")) return Format::webp;
  if (has(128, "DICM")) return Format::dicom;
  for (const std::string_view magic : {"P2", "P3", "P5", "P6"})
    if (has(0, magic)) return Format::pnm;
  return Format::unknown;
}

}  // namespace

void unreadable(const std::string& file, std::string_view format, std::string_view why, std::string_view hint) {
  throw Error(Fault::data, file, fmt::format("cannot be read as {}: {}", format, why), std::string(hint));
}

void not_built_in(const std::string& file, std::string_view format, std::string_view package) {
  throw Error(Fault::data, file, fmt::format("is a {} file, and this fedgrab was built without that format", format),
              fmt::format("install {} and build again, or convert the file to PNG", package));
}

uint8_t to_byte(double value, Levels levels) {
  const double share = (value - levels.black) / (levels.white - levels.black);
  return share > 0 ? static_cast<uint8_t>(std::lround(std::min(share, 1.0) * 255)) : 0;  // 0 for what is not a number
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

std::vector<uint8_t> laid_on_black(std::span<const uint8_t> pixels, size_t channels) {
  std::vector<uint8_t> opaque;
  opaque.reserve(pixels.size() / channels * (channels - 1));
  for (size_t i = 0; i < pixels.size(); i += channels) {
    const uint32_t alpha = pixels[i + channels - 1];
    for (size_t channel = 0; channel + 1 < channels; ++channel)
      opaque.push_back(static_cast<uint8_t>((pixels[i + channel] * alpha + 127) / 255));
  }
  return opaque;
}

Image read_image(const std::filesystem::path& path, int64_t enough, std::optional<Levels> levels) {
  const std::string file = path.string();
  std::error_code none;
  if (fs::is_regular_file(path, none) && fs::file_size(path, none) > most_bytes)
    throw Error(Fault::data, file, "is larger than any image", "replace or remove it");
  const auto bytes = read_bytes(path);
  switch (format_of(bytes)) {
    case Format::png: return decode_png(bytes, file, levels);
    case Format::jpeg: return decode_jpeg(bytes, file, enough);
    case Format::tiff: return decode_tiff(bytes, file, levels);
    case Format::webp: return decode_webp(bytes, file);
    case Format::dicom: return decode_dicom(bytes, file, levels);
    case Format::pnm: return decode_pnm(bytes, file, levels);
    case Format::unknown: break;
  }
  throw Error(Fault::data, file, bytes.empty() ? "is empty" : "is not a PNG, JPEG, TIFF, WebP, DICOM, PPM or PGM image",
              "replace or remove it");
}

bool looks_like_image(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 11> endings = {".png", ".jpg",  ".jpeg", ".ppm", ".pgm",  ".pnm",
                                                        ".tif", ".tiff", ".webp", ".dcm", ".dicom"};
  if (path.filename().string().starts_with('.')) return false;  // what file managers leave behind
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

bool is_image_file(const std::filesystem::path& path) {
  if (!is_file(path)) return false;
  if (looks_like_image(path)) return true;
  const std::string name = path.filename().string();
  if (name.starts_with('.') || name == "DICOMDIR") return false;
  std::array<uint8_t, magic_bytes> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(head.data()), head.size());
  const Format format = format_of(std::span(head).first(static_cast<size_t>(file.gcount())));
  return format != Format::unknown && format != Format::pnm;  // two letters are too few to tell it from a text
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
