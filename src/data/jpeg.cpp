// clang-format off
#include <cstdio>  // jpeglib.h uses FILE without including it
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>

#include "decode.h"

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

  bool read_header() {
    if (setjmp(failed_) != 0) return false;
    jpeg_create_decompress(&codec_);
    jpeg_mem_src(&codec_, bytes_.data(), bytes_.size());
    jpeg_read_header(&codec_, TRUE);
    const bool four = codec_.jpeg_color_space == JCS_CMYK || codec_.jpeg_color_space == JCS_YCCK;
    const bool grey = codec_.jpeg_color_space == JCS_GRAYSCALE;
    codec_.out_color_space = four ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_calc_output_dimensions(&codec_);
    return true;
  }

  bool read_pixels(uint8_t* pixels) {
    if (setjmp(failed_) != 0) return false;
    jpeg_start_decompress(&codec_);
    const size_t row_bytes = size_t{codec_.output_width} * channels();
    while (codec_.output_scanline < codec_.output_height) {
      JSAMPROW row = pixels + codec_.output_scanline * row_bytes;
      jpeg_read_scanlines(&codec_, &row, 1);
    }
    jpeg_finish_decompress(&codec_);
    return true;
  }

  size_t height() const { return codec_.output_height; }
  size_t width() const { return codec_.output_width; }
  size_t channels() const { return static_cast<size_t>(codec_.output_components); }
  /// Adobe's programs store CMYK inverted, and say that it was them.
  bool inverted() const { return codec_.saw_Adobe_marker != 0; }
  const char* message() const { return message_; }

 private:
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
  char message_[JMSG_LENGTH_MAX] = "";
};

std::vector<uint8_t> cmyk_to_rgb(const std::vector<uint8_t>& pixels, bool inverted) {
  const auto light = [inverted](uint8_t ink) -> uint32_t { return inverted ? ink : 255U - ink; };
  std::vector<uint8_t> rgb;
  rgb.reserve(pixels.size() / 4 * 3);
  for (size_t i = 0; i < pixels.size(); i += 4)
    for (size_t ink = 0; ink < 3; ++ink)
      rgb.push_back(static_cast<uint8_t>((light(pixels[i + ink]) * light(pixels[i + 3]) + 127) / 255));
  return rgb;
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& file) {
  JpegSource source(bytes);
  if (!source.read_header()) unreadable(file, "JPEG", source.message());
  check_dimensions(file, "JPEG", source.height(), source.width());

  std::vector<uint8_t> pixels(source.height() * source.width() * source.channels());
  if (!source.read_pixels(pixels.data())) unreadable(file, "JPEG", source.message());

  if (source.channels() == 4) pixels = cmyk_to_rgb(pixels, source.inverted());
  return to_planes(
      {source.channels() == 1 ? 1 : 3, static_cast<int64_t>(source.height()), static_cast<int64_t>(source.width())},
      pixels);
}

}  // namespace fedgrab
