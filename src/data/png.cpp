#include <png.h>

#include <cstdio>
#include <cstring>

#include "decode.h"
#include "exif.h"

namespace fedgrab {
namespace {

constexpr int most_texts = 8;  // a packed comment may have 8 MB, and a file a thousand of them

/// What libpng needs during one file. Its errors come back by longjmp, so the functions that call it hold nothing with
/// a destructor and say by a bool how it went.
class PngSource {
 public:
  explicit PngSource(std::span<const uint8_t> bytes) : bytes_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  PngSource(const PngSource&) = delete;
  PngSource& operator=(const PngSource&) = delete;
  ~PngSource() { png_destroy_read_struct(&png_, &info_, nullptr); }

  /// `keep_16`: two bytes of every channel where the file has them, the higher first.
  bool read_header(bool keep_16) {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, on_read);
    png_set_chunk_cache_max(png_, most_texts);
    png_read_info(png_, info_);
    png_set_expand(png_);
    if (!keep_16) png_set_scale_16(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_pixels(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  size_t height() const { return png_get_image_height(png_, info_); }
  size_t width() const { return png_get_image_width(png_, info_); }
  size_t channels() const { return png_get_channels(png_, info_); }
  bool wide() const { return png_get_bit_depth(png_, info_) == 16; }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  const char* message() const { return message_; }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngSource*>(png_get_error_ptr(png));
    std::snprintf(self->message_, sizeof(self->message_), "%s", message);
    png_longjmp(png, 1);
  }

  static void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}

  static void on_read(png_structp png, png_bytep out, size_t count) {
    auto* self = static_cast<PngSource*>(png_get_io_ptr(png));
    if (self->bytes_.size() - self->position_ < count) png_error(png, "the file ends too early");
    std::memcpy(out, self->bytes_.data() + self->position_, count);
    self->position_ += count;
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const uint8_t> bytes_;
  size_t position_ = 0;
  char message_[200] = "out of memory";
};

/// Two bytes, the higher first, to one by the levels. Transparency keeps its whole range.
std::vector<uint8_t> narrowed(const std::vector<uint8_t>& pixels, size_t channels, Levels levels) {
  std::vector<uint8_t> bytes(pixels.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool alpha = channels % 2 == 0 && i % channels == channels - 1;
    const double value = pixels[2 * i] << 8U | pixels[2 * i + 1];
    bytes[i] = to_byte(value, alpha ? Levels{0, UINT16_MAX} : levels);
  }
  return bytes;
}

}  // namespace

Image decode_png(std::span<const uint8_t> bytes, const std::string& file, MaybeLevels levels) {
  PngSource source(bytes);
  if (!source.read_header(levels.has_value())) unreadable(file, "PNG", source.message());
  // The pixels, with their transparency, and the planes made of them.
  const auto memory =
      share_of_memory(file, "PNG", source.height(), source.width(), (source.wide() ? 3 : 2) * source.channels());

  std::vector<uint8_t> pixels(source.height() * source.row_bytes());
  std::vector<png_bytep> rows(source.height());
  for (size_t row = 0; row < rows.size(); ++row) rows[row] = pixels.data() + row * source.row_bytes();
  if (!source.read_pixels(rows.data())) unreadable(file, "PNG", source.message());

  if (source.wide()) pixels = narrowed(pixels, source.channels(), *levels);
  const bool transparent = source.channels() % 2 == 0;
  if (transparent) pixels = laid_on_black(pixels, source.channels());
  Image image = to_planes(
      {source.channels() < 3 ? 1 : 3, static_cast<int64_t>(source.height()), static_cast<int64_t>(source.width())},
      pixels);
  image.memory = memory;
  return upright(std::move(image), exif_orientation(bytes));
}

}  // namespace fedgrab
