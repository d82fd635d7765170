#include "fedgrab/data/batch.h"

#include <algorithm>

namespace fedgrab {
namespace {

void write_row(const uint8_t* in, int64_t width, const Placement& placement, const ByteTable& table, float* out) {
  // Output columns [first, last) come from inside the image. A flip mirrors the crop, so the shift changes sides.
  const int64_t shift = placement.flip ? -placement.dx : placement.dx;
  const int64_t first = std::clamp<int64_t>(-shift, 0, width);
  const int64_t last = std::clamp<int64_t>(width - shift, first, width);
  std::fill(out, out + first, table[0]);
  if (placement.flip) {
    const uint8_t* from = in + width - 1 + placement.dx;
    for (int64_t x = first; x < last; ++x) out[x] = table[from[-x]];
  } else {
    const uint8_t* from = in + placement.dx;
    for (int64_t x = first; x < last; ++x) out[x] = table[from[x]];
  }
  std::fill(out + last, out + width, table[0]);
}

void write_image(const Images& images, int64_t i, const Placement& placement, const std::vector<ByteTable>& tables,
                 float* out) {
  const auto [channels, height, width] = images.shape;
  const uint8_t* image = images.at(i).data();
  for (int64_t channel = 0; channel < channels; ++channel) {
    const ByteTable& table = tables[static_cast<size_t>(channel)];
    for (int64_t y = 0; y < height; ++y, out += width) {
      const int64_t source = y + placement.dy;
      if (source < 0 || source >= height)
        std::fill(out, out + width, table[0]);
      else
        write_row(image + (channel * height + source) * width, width, placement, table, out);
    }
  }
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

Placement place(const Augmentation& augmentation, const PhiloxBlock& words) {
  const int64_t padding = augmentation.crop_padding;
  const int64_t choices = 2 * padding + 1;
  return {words[0] % choices - padding, words[1] % choices - padding, augmentation.flip && (words[2] & 1U) != 0};
}

void write_sample(const Images& images, int64_t i, const Placement& placement, const Normalisation& normalisation,
                  float* out) {
  write_image(images, i, placement, byte_tables(normalisation, images.shape.channels), out);
}

void write_batch(const Images& images, std::span<const int64_t> indices, const Augmentation& augmentation,
                 const Normalisation& normalisation, const Random& random, uint32_t first_position, float* out) {
  const auto tables = byte_tables(normalisation, images.shape.channels);
  for (const int64_t i : indices) {
    write_image(images, i, place(augmentation, random.block(first_position++)), tables, out);
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
