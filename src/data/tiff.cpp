#include <fmt/format.h>
#include <tiffio.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "decode.h"
#include "exif.h"

namespace fedgrab {
namespace {

constexpr std::string_view format = "TIFF";
constexpr uint64_t small_tile = uint64_t{16} << 20U;

/// A file in memory, as libtiff reads it. Its messages are kept, for the error that follows.
class TiffSource {
 public:
  TiffSource(std::span<const uint8_t> bytes, const std::string& file) : bytes_(bytes), file_(file) {
    const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                               TIFFOpenOptionsFree);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), tmsize_t{1} << 30U);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, nullptr);
    // "m": not to be mapped, since a mapped file is read past its end before that is noticed.
    tiff_ = TIFFClientOpenExt("", "rm", this, on_read, on_write, on_seek, on_close, on_size, nullptr, nullptr,
                              options.get());
    if (tiff_ == nullptr) refuse();
  }
  TiffSource(const TiffSource&) = delete;
  TiffSource& operator=(const TiffSource&) = delete;
  ~TiffSource() { TIFFClose(tiff_); }

  TIFF* get() const { return tiff_; }
  [[noreturn]] void refuse(std::string_view why = {}) const {
    unreadable(file_, format, !why.empty() ? why : *message_ != '\0' ? message_ : "the file is damaged");
  }

  template <class T>
  T field(uint32_t tag) const {
    T value{};
    TIFFGetFieldDefaulted(tiff_, tag, &value);
    return value;
  }

 private:
  static TiffSource& self(thandle_t handle) { return *static_cast<TiffSource*>(handle); }

  static tmsize_t on_read(thandle_t handle, void* out, tmsize_t wanted) {
    TiffSource& source = self(handle);
    const size_t left = source.position_ < source.bytes_.size() ? source.bytes_.size() - source.position_ : 0;
    const size_t count = std::min(left, static_cast<size_t>(wanted));
    if (count > 0) std::memcpy(out, source.bytes_.data() + source.position_, count);
    source.position_ += count;
    return static_cast<tmsize_t>(count);
  }
  static tmsize_t on_write(thandle_t /*handle*/, void* /*bytes*/, tmsize_t /*count*/) { return 0; }
  static toff_t on_seek(thandle_t handle, toff_t offset, int whence) {
    TiffSource& source = self(handle);
    const uint64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source.position_ : source.bytes_.size();
    return source.position_ = from + offset;
  }
  static int on_close(thandle_t /*handle*/) { return 0; }
  static toff_t on_size(thandle_t handle) { return self(handle).bytes_.size(); }

  /// The first message says most. Others follow from it.
  static int on_error(TIFF* /*tiff*/, void* user, const char* /*module*/, const char* text, va_list values) {
    auto& message = static_cast<TiffSource*>(user)->message_;
    if (*message == '\0') std::vsnprintf(message, sizeof(message), text, values);
    return 1;
  }
  static int on_warning(TIFF* /*tiff*/, void* /*user*/, const char* /*module*/, const char* /*text*/,
                        va_list /*values*/) {
    return 1;
  }

  std::span<const uint8_t> bytes_;
  const std::string& file_;
  uint64_t position_ = 0;
  char message_[200] = "";
  TIFF* tiff_ = nullptr;
};

struct Layout {
  explicit Layout(const TiffSource& source)
      : height(source.field<uint32_t>(TIFFTAG_IMAGELENGTH)),
        width(source.field<uint32_t>(TIFFTAG_IMAGEWIDTH)),
        bits(source.field<uint16_t>(TIFFTAG_BITSPERSAMPLE)),
        samples(source.field<uint16_t>(TIFFTAG_SAMPLESPERPIXEL)),
        kind(source.field<uint16_t>(TIFFTAG_SAMPLEFORMAT)),
        orientation(source.field<uint16_t>(TIFFTAG_ORIENTATION)),
        tiled(TIFFIsTiled(source.get()) != 0) {
    uint16_t extra = 0, *kinds = nullptr;
    TIFFGetFieldDefaulted(source.get(), TIFFTAG_EXTRASAMPLES, &extra, &kinds);
    if (TIFFGetField(source.get(), TIFFTAG_PHOTOMETRIC, &photometric) == 0) source.refuse("it has no pixels");
    grey = (photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE) && samples - extra == 1;
  }

  size_t bytes_per_pixel() const { return (size_t{samples} * bits + 7) / 8; }
  /// One number of more than 8 bits a pixel, of which libtiff's conversion to colours keeps too little or nothing.
  bool wide_grey() const { return grey && samples == 1 && (bits == 16 || bits == 32); }

  uint32_t height, width;
  uint16_t bits, samples, kind, orientation, photometric = 0;
  bool tiled, grey = false;
};

void refuse_pages(const TiffSource& source, const std::string& file) {
  while (TIFFReadDirectory(source.get()) != 0)
    if ((source.field<uint32_t>(TIFFTAG_SUBFILETYPE) & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) == 0)
      unreadable(file, format, "it has several pages", "split it into a file per page, with tiffsplit say");
  if (TIFFSetDirectory(source.get(), 0) == 0) source.refuse();
}

/// The pixels of every kind of image that libtiff can convert, colours multiplied by their opacity.
Image read_colours(const TiffSource& source, const Layout& layout) {
  char why[1024] = "";
  TIFFRGBAImage reader{};
  if (TIFFRGBAImageOK(source.get(), why) == 0 || TIFFRGBAImageBegin(&reader, source.get(), 1, why) == 0)
    source.refuse(why);
  const std::unique_ptr<TIFFRGBAImage, void (*)(TIFFRGBAImage*)> end(&reader, TIFFRGBAImageEnd);
  reader.orientation = reader.req_orientation = ORIENTATION_TOPLEFT;  // turned later: libtiff mirrors only
  std::vector<uint32_t> raster(size_t{layout.height} * layout.width);
  if (TIFFRGBAImageGet(&reader, raster.data(), layout.width, layout.height) == 0) source.refuse();

  Image image{{layout.grey ? 1 : 3, layout.height, layout.width}, {}};
  image.bytes.reserve(raster.size() * static_cast<size_t>(image.shape.channels));
  const bool multiply = layout.grey && reader.alpha == EXTRASAMPLE_UNASSALPHA;  // libtiff does so for colours alone
  for (int64_t channel = 0; channel < image.shape.channels; ++channel)
    for (const uint32_t pixel : raster) {
      const uint32_t value = pixel >> (8 * channel) & 0xFFU;
      image.bytes.push_back(static_cast<uint8_t>(multiply ? (value * TIFFGetA(pixel) + 127) / 255 : value));
    }
  return image;
}

/// All that 16 or 32 bits can hold, and 0 to 1 of floating-point numbers.
Levels whole_range(const Layout& layout) {
  if (layout.kind == SAMPLEFORMAT_IEEEFP) return {0, 1};
  const double count = layout.bits == 16 ? 0x1p16 : 0x1p32;
  return layout.kind == SAMPLEFORMAT_INT ? Levels{-count / 2, count / 2 - 1} : Levels{0, count - 1};
}

template <class T>
void narrow(const uint8_t* from, size_t count, Levels levels, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = to_byte(static_cast<double>(value), levels);
  }
}

void narrow(const Layout& layout, const uint8_t* from, size_t count, Levels levels, uint8_t* out) {
  const bool wide = layout.bits == 32;
  switch (layout.kind) {
    case SAMPLEFORMAT_INT:
      return wide ? narrow<int32_t>(from, count, levels, out) : narrow<int16_t>(from, count, levels, out);
    case SAMPLEFORMAT_IEEEFP: return narrow<float>(from, count, levels, out);
    default: return wide ? narrow<uint32_t>(from, count, levels, out) : narrow<uint16_t>(from, count, levels, out);
  }
}

void read_rows(const TiffSource& source, const Layout& layout, Levels levels, Image& image) {
  std::vector<uint8_t> row(static_cast<size_t>(TIFFScanlineSize64(source.get())));
  if (row.size() != layout.width * layout.bytes_per_pixel()) source.refuse();
  for (uint32_t y = 0; y < layout.height; ++y) {
    if (TIFFReadScanline(source.get(), row.data(), y, 0) != 1) source.refuse();
    narrow(layout, row.data(), layout.width, levels, image.bytes.data() + size_t{y} * layout.width);
  }
}

void read_tiles(const TiffSource& source, const Layout& layout, Levels levels, Image& image) {
  const auto across = source.field<uint32_t>(TIFFTAG_TILEWIDTH), down = source.field<uint32_t>(TIFFTAG_TILELENGTH);
  std::vector<uint8_t> tile(static_cast<size_t>(TIFFTileSize64(source.get())));
  if (across == 0 || down == 0 || tile.size() != size_t{across} * down * layout.bytes_per_pixel()) source.refuse();
  for (uint32_t top = 0; top < layout.height; top += down)
    for (uint32_t left = 0; left < layout.width; left += across) {
      if (TIFFReadTile(source.get(), tile.data(), left, top, 0, 0) < 0) source.refuse();
      for (uint32_t y = top; y < std::min(uint64_t{top} + down, uint64_t{layout.height}); ++y)
        narrow(layout, tile.data() + size_t{y - top} * across * layout.bytes_per_pixel(),
               std::min(across, layout.width - left), levels, image.bytes.data() + size_t{y} * layout.width + left);
    }
}

Image read_wide_grey(const TiffSource& source, const Layout& layout, Levels levels) {
  if (layout.kind == SAMPLEFORMAT_IEEEFP && layout.bits == 16)
    source.refuse("it has floating-point numbers of 16 bits");
  if (layout.kind > SAMPLEFORMAT_IEEEFP && layout.kind != SAMPLEFORMAT_VOID) source.refuse("it has complex numbers");
  Image image{{1, layout.height, layout.width}, std::vector<uint8_t>(size_t{layout.height} * layout.width)};
  (layout.tiled ? read_tiles : read_rows)(source, layout, levels, image);
  if (layout.photometric == PHOTOMETRIC_MINISWHITE)
    for (auto& byte : image.bytes) byte = static_cast<uint8_t>(UINT8_MAX - byte);
  return image;
}

}  // namespace

Image decode_tiff(std::span<const uint8_t> bytes, const std::string& file, MaybeLevels levels) {
  const TiffSource source(bytes, file);
  refuse_pages(source, file);
  const Layout layout(source);
  // As libtiff decodes them, its four bytes a pixel, and the planes.
  const auto memory = share_of_memory(file, format, layout.height, layout.width, layout.bytes_per_pixel() + 4 + 3);
  const uint64_t raw = uint64_t{layout.height} * layout.width * layout.bytes_per_pixel();
  if (layout.tiled && TIFFTileSize64(source.get()) > std::max(small_tile, 2 * raw))
    source.refuse("its tiles are much larger than the image");

  Image image = layout.wide_grey() ? read_wide_grey(source, layout, levels.value_or(whole_range(layout)))
                                   : read_colours(source, layout);
  image.memory = memory;
  return upright(std::move(image), layout.orientation);
}

}  // namespace fedgrab
