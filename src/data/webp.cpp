#include <fmt/format.h>
#include <webp/decode.h>

#include "decode.h"
#include "exif.h"

namespace fedgrab {
namespace {

constexpr std::string_view format = "WebP";

std::string_view message_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "it uses a feature that libwebp does not know";
    default: return "the file is damaged";
  }
}

}  // namespace

Image decode_webp(std::span<const uint8_t> bytes, const std::string& file) {
  WebPBitstreamFeatures features{};
  const auto status = WebPGetFeatures(bytes.data(), bytes.size(), &features);
  if (status != VP8_STATUS_OK) unreadable(file, format, message_of(status));
  if (features.has_animation != 0) unreadable(file, format, "it is an animation", "keep one picture of it");
  const auto height = static_cast<uint64_t>(features.height), width = static_cast<uint64_t>(features.width);
  const size_t channels = features.has_alpha != 0 ? 4 : 3;
  // Inside the decoder up to four bytes, the pixels, and the planes made of them.
  const auto memory = share_of_memory(file, format, height, width, 4 + channels + 3);

  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) unreadable(file, format, "libwebp has another version than its header");
  std::vector<uint8_t> pixels(height * width * channels);
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {pixels.data(), static_cast<int>(width * channels), pixels.size()};
  const auto decoded = WebPDecode(bytes.data(), bytes.size(), &config);
  if (decoded != VP8_STATUS_OK) unreadable(file, format, message_of(decoded));

  if (channels == 4) pixels = laid_on_black(pixels, channels);
  Image image = to_planes({3, features.height, features.width}, pixels);
  image.memory = memory;
  return upright(std::move(image), exif_orientation(bytes));
}

}  // namespace fedgrab
