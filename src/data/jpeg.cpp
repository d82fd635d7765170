// clang-format off
#include <cstdio>  // jpeglib.h uses FILE without including it
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>

#include "decode.h"
#include "exif.h"

namespace fedgrab {
namespace {

/// What libjpeg needs during one file. Its errors come back by longjmp, so the functions that call it hold nothing with
/// a destructor and say by a bool how it went.
class JpegSource {
 public:
  explicit JpegSource(std::span<const uint8_t> bytes) : bytes_(bytes) {
    codec_.err = jpeg_std_error(&errors_);
    codec_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
  }
  JpegSource(const JpegSource&) = delete;
  JpegSource& operator=(const JpegSource&) = delete;
  ~JpegSource() { jpeg_destroy_decompress(&codec_); }

  bool read_header(int64_t enough) {
    if (setjmp(failed_) != 0) return false;
    jpeg_create_decompress(&codec_);
    jpeg_mem_src(&codec_, bytes_.data(), bytes_.size());
    jpeg_read_header(&codec_, TRUE);
    const bool four = codec_.jpeg_color_space == JCS_CMYK || codec_.jpeg_color_space == JCS_YCCK;
    const bool grey = codec_.jpeg_color_space == JCS_GRAYSCALE;
    // Colour in four bytes a pixel, like CMYK: compilers take those apart faster than three.
    codec_.out_color_space = four ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_EXT_RGBX;
    cmyk_ = four;
    several_scans_ = jpeg_has_multiple_scans(&codec_) != 0;
    const int64_t shorter = std::min(codec_.image_height, codec_.image_width);
    while (enough > 0 && codec_.scale_denom < 8 && shorter / (int64_t{2} * codec_.scale_denom) >= enough)
      codec_.scale_denom *= 2;
    jpeg_calc_output_dimensions(&codec_);
    return true;
  }

  /// Row by row into planes, while a row is still in the cache. `row` holds one row.
  bool read_planes(uint8_t* row, uint8_t* planes) {
    if (setjmp(failed_) != 0) return false;
    jpeg_start_decompress(&codec_);
    const size_t plane = height() * width();
    while (codec_.output_scanline < codec_.output_height) {
      uint8_t* out = planes + size_t{codec_.output_scanline} * width();
      jpeg_read_scanlines(&codec_, &row, 1);
      if (cmyk_) cmyk_to_rgb(row);
      if (row_bytes() == width())
        std::copy_n(row, width(), out);
      else
        for (size_t channel = 0; channel < 3; ++channel) take_channel(row + channel, width(), out + channel * plane);
    }
    jpeg_finish_decompress(&codec_);
    return true;
  }

  size_t height() const { return codec_.output_height; }
  size_t width() const { return codec_.output_width; }
  size_t row_bytes() const { return width() * static_cast<size_t>(codec_.output_components); }
  int64_t reduced() const { return codec_.scale_denom; }
  /// Of what libjpeg holds in memory at once: all of a file of several scans, rows of any other.
  size_t held_height() const { return several_scans_ ? codec_.image_height : height(); }
  size_t held_width() const { return several_scans_ ? codec_.image_width : width(); }
  /// Coefficients of 16 bits, and the planes.
  size_t held_bytes_per_pixel() const {
    return (several_scans_ ? 2 * static_cast<size_t>(codec_.num_components) : 0) + (codec_.num_components == 1 ? 1 : 3);
  }
  const char* message() const { return message_; }

 private:
  static void take_channel(const uint8_t* pixels, size_t count, uint8_t* __restrict out) {
    for (size_t x = 0; x < count; ++x) out[x] = pixels[4 * x];
  }

  /// In place; the fourth byte of a pixel is left.
  void cmyk_to_rgb(uint8_t* row) const {
    const bool inverted = codec_.saw_Adobe_marker != 0;  // Adobe's programs store it so, and say that it was them
    const auto light = [inverted](uint8_t ink) -> uint32_t { return inverted ? ink : 255U - ink; };
    for (uint8_t* pixel = row; pixel < row + 4 * width(); pixel += 4)
      for (size_t ink = 0; ink < 3; ++ink)
        pixel[ink] = static_cast<uint8_t>((light(pixel[ink]) * light(pixel[3]) + 127) / 255);
  }

  [[noreturn]] static void on_error(j_common_ptr codec) {
    auto* self = static_cast<JpegSource*>(codec->client_data);
    codec->err->format_message(codec, self->message_);
    std::longjmp(self->failed_, 1);
  }

  /// libjpeg fills lost pixels with grey and calls that a warning; a data set should not contain them.
  static void on_message(j_common_ptr codec, int level) {
    if (level >= 0) return;
    switch (codec->err->msg_code) {
      case JWRN_JPEG_EOF:
      case JWRN_HIT_MARKER:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_ARITH_BAD_CODE:
      case JWRN_MUST_RESYNC: on_error(codec);
      default: return;
    }
  }

  jpeg_decompress_struct codec_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf failed_{};
  std::span<const uint8_t> bytes_;
  bool cmyk_ = false, several_scans_ = false;
  char message_[JMSG_LENGTH_MAX] = "";
};

}  // namespace

Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& file, int64_t enough) {
  JpegSource source(bytes);
  if (!source.read_header(enough)) unreadable(file, "JPEG", source.message());
  const int64_t channels = source.row_bytes() == source.width() ? 1 : 3;
  const int orientation = exif_orientation(bytes);
  const size_t turned = orientation == 1 ? 0 : static_cast<size_t>(channels);  // bytes per pixel of the second copy
  const auto memory =
      share_of_memory(file, "JPEG", source.held_height(), source.held_width(), source.held_bytes_per_pixel() + turned);

  Image image{{channels, static_cast<int64_t>(source.height()), static_cast<int64_t>(source.width())},
              {},
              source.reduced(),
              memory};
  image.bytes.resize(static_cast<size_t>(image.shape.size()));
  std::vector<uint8_t> row(source.row_bytes());
  if (!source.read_planes(row.data(), image.bytes.data())) unreadable(file, "JPEG", source.message());
  return upright(std::move(image), orientation);
}

}  // namespace fedgrab
