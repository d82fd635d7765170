#include "fedgrab/data/batch.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fedgrab/data/augment/operations.h"
#include "resample.h"

namespace fedgrab {
namespace {

/// In place of a table of floats: bytes stay what they are.
struct PlainByte {
  uint8_t operator[](size_t byte) const { return static_cast<uint8_t>(byte); }
};
struct PlainBytes {
  PlainByte operator[](size_t /*channel*/) const { return {}; }
};

/// Writes `width` columns of the row `in`, from its column `left` on; what lies outside is black.
template <class Table, class Out>
void write_row(const uint8_t* in, int64_t stored, int64_t left, int64_t width, bool flip, const Table& table,
               Out* out) {
  // Output columns [first, last) come from inside the image. A flip mirrors the crop, so what is outside changes sides.
  const int64_t before = -left, beyond = left + width - stored;
  const int64_t first = std::clamp<int64_t>(flip ? beyond : before, 0, width);
  const int64_t last = std::clamp<int64_t>(width - (flip ? before : beyond), first, width);
  std::fill(out, out + first, table[0]);
  if (flip) {
    const uint8_t* from = in + left + width - 1;
    for (int64_t x = first; x < last; ++x) out[x] = table[from[-x]];
  } else {
    const uint8_t* from = in + left;
    for (int64_t x = first; x < last; ++x) out[x] = table[from[x]];
  }
  std::fill(out + last, out + width, table[0]);
}

template <class Tables, class Out>
void write_crop(const Images& images, int64_t i, const Placement& placement, const Tables& tables, Out* out) {
  const auto [channels, height, width] = images.shape;
  const ImageShape stored = images.stored();
  const uint8_t* image = images.at(i).data();
  for (int64_t channel = 0; channel < channels; ++channel) {
    const auto& table = tables[static_cast<size_t>(channel)];
    for (int64_t y = 0; y < height; ++y, out += width) {
      const int64_t source = y + placement.dy + images.margin;
      if (source < 0 || source >= stored.height)
        std::fill(out, out + width, table[0]);
      else
        write_row(image + (channel * stored.height + source) * stored.width, stored.width, placement.dx + images.margin,
                  width, placement.flip, table, out);
    }
  }
}

template <class Tables, class Out>
void write_resized_crop(const Images& images, int64_t i, const Placement& placement, const Tables& tables, Out* out) {
  const auto [channels, height, width] = images.shape;
  const ImageShape stored = images.stored();
  const uint8_t* corner =
      images.at(i).data() + (placement.dy + images.margin) * stored.width + placement.dx + images.margin;
  Resampler resample(placement.height, placement.width, height, width);
  std::vector<uint8_t> plane(static_cast<size_t>(height * width));
  for (int64_t channel = 0; channel < channels; ++channel, corner += stored.height * stored.width) {
    resample(corner, static_cast<size_t>(stored.width), plane.data());
    for (int64_t y = 0; y < height; ++y, out += width)
      write_row(&plane[static_cast<size_t>(y * width)], width, 0, width, placement.flip,
                tables[static_cast<size_t>(channel)], out);
  }
}

/// As floats by tables, or as bytes with PlainBytes.
template <class Tables, class Out>
void write_image(const Images& images, int64_t i, const Placement& placement, const Tables& tables, Out* out) {
  if (placement.height > 0)
    write_resized_crop(images, i, placement, tables, out);
  else
    write_crop(images, i, placement, tables, out);
}

/// The operations behind crop and flip, on one image after the other.
class FurtherOperations {
 public:
  FurtherOperations(ImageShape shape, const OperationList& list, int32_t first, uint32_t view)
      : list_(list),
        first_(first),
        view_(view),
        pixels_(static_cast<size_t>(shape.size())),
        spare_(pixels_.size()),
        bins_(static_cast<size_t>(shape.channels) * 256),
        canvas_{static_cast<int32_t>(shape.channels),
                static_cast<int32_t>(shape.height),
                static_cast<int32_t>(shape.width),
                pixels_.data(),
                spare_.data(),
                bins_.data()} {}

  uint8_t* pixels() { return canvas_.pixels; }
  void apply(const Random& random, uint32_t position) {
    const auto words_at = [&](uint32_t counter) {
      const PhiloxBlock block = random.block(position, counter);
      return OperationWords{{block[0], block[1], block[2], block[3]}};
    };
    apply_operations(OneThread{}, canvas_, list_, first_, view_, words_at);
  }
  void write(const std::vector<ByteTable>& tables, float* out) const {
    const uint8_t* from = canvas_.pixels;
    for (const ByteTable& table : tables)
      for (int32_t i = 0; i < canvas_.plane(); ++i) *out++ = table[*from++];
  }

 private:
  const OperationList& list_;
  int32_t first_;
  uint32_t view_;
  std::vector<uint8_t> pixels_, spare_;
  std::vector<uint32_t> bins_;
  Canvas canvas_;
};

/// torchvision's RandomResizedCrop of its usual ranges: a tenth try that does not fit leaves the whole image.
Placement place_resized_crop(const Images& images, const PhiloxBlock& words) {
  constexpr double least_area = 0.08;
  const double widest = std::log(4.0 / 3.0);  // as narrow on the other side
  const auto [channels, height, width] = images.stored();
  const auto area = static_cast<double>(height * width);
  Placement placement{-images.margin, -images.margin, (words[3] & 1U) != 0, height, width};
  for (uint64_t attempt = 0; attempt < 10; ++attempt) {
    const PhiloxBlock draw = attempt == 0 ? words : philox(words, attempt);
    const double part = area * (least_area + (1 - least_area) * to_unit(draw[0]));
    const double aspect = std::exp(widest * (2.0 * to_unit(draw[1]) - 1));
    const auto w = static_cast<int64_t>(std::lrint(std::sqrt(part * aspect)));
    const auto h = static_cast<int64_t>(std::lrint(std::sqrt(part / aspect)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    placement.dy += (draw[2] >> 16) * (height - h + 1) >> 16;
    placement.dx += (draw[2] & 0xFFFFU) * (width - w + 1) >> 16;
    placement.height = h;
    placement.width = w;
    break;
  }
  return placement;
}

}  // namespace

std::vector<ByteTable> byte_tables(const Normalisation& normalisation, int64_t channels) {
  std::vector<ByteTable> tables(static_cast<size_t>(channels));
  for (size_t channel = 0; channel < tables.size(); ++channel) {
    const float mean = normalisation.mean.at(channel);
    const float std = normalisation.std.at(channel);
    for (size_t byte = 0; byte < 256; ++byte) tables[channel][byte] = (static_cast<float>(byte) / 255.0F - mean) / std;
  }
  return tables;
}

Placement place(const CropAndFlip& rule, const Images& images, const PhiloxBlock& words) {
  if (rule.resized_crop) {
    Placement placement = place_resized_crop(images, words);
    placement.flip &= rule.flip;
    return placement;
  }
  const int64_t padding = rule.crop_padding;
  const int64_t choices = 2 * padding + 1;
  return {words[0] % choices - padding, words[1] % choices - padding, rule.flip && (words[2] & 1U) != 0};
}

void write_sample(const Images& images, int64_t i, const Placement& placement, const Normalisation& normalisation,
                  float* out) {
  write_image(images, i, placement, byte_tables(normalisation, images.shape.channels), out);
}

void write_batch(const Images& images, std::span<const int64_t> indices, const Augmentation& augmentation,
                 const Normalisation& normalisation, const Random& random, uint32_t first_position, float* out,
                 uint32_t view) {
  const auto tables = byte_tables(normalisation, images.shape.channels);
  const OperationList& list = augmentation.of_view(view);
  const CropAndFlip rule = leading_crop_and_flip(list);
  std::optional<FurtherOperations> further;
  if (rule.operations < list.count) further.emplace(images.shape, list, rule.operations, view);
  for (const int64_t i : indices) {
    const uint32_t position = first_position++;
    const Placement placement = place(rule, images, random.block(position, view));
    if (further) {
      write_image(images, i, placement, PlainBytes{}, further->pixels());
      further->apply(random, position);
      further->write(tables, out);
    } else {
      write_image(images, i, placement, tables, out);
    }
    out += images.shape.size();
  }
}

void write_batch(const Images& images, std::span<const int64_t> indices, const Normalisation& normalisation,
                 float* out) {
  const auto tables = byte_tables(normalisation, images.shape.channels);
  for (const int64_t i : indices) {
    write_image(images, i, Placement{}, tables, out);
    out += images.shape.size();
  }
}

}  // namespace fedgrab
