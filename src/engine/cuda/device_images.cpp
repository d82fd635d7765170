#include "device_images.h"

#include "fedgrab/core/error.h"
#include "fedgrab/data/batch.h"

namespace fedgrab::cuda {

DeviceImages::DeviceImages(const Split& split, const Normalisation& normalisation, const Augmentation& augmentation,
                           bool stream_it)
    : streamed(stream_it) {
  const auto shape = split.images.shape;
  if (!streamed)
    pixels = torch::from_blob(const_cast<uint8_t*>(split.images.bytes.data()),
                              {static_cast<int64_t>(split.images.bytes.size())}, torch::kByte)
                 .cuda();
  labels = torch::tensor(split.labels, torch::kInt).cuda();
  const auto tables = byte_tables(normalisation, shape.channels);
  table = torch::from_blob(const_cast<float*>(tables.front().data()), {shape.channels, 256}).cuda();
  const CropAndFlip leading = leading_crop_and_flip(augmentation.operations);
  source = {streamed ? nullptr : pixels.data_ptr<uint8_t>(),
            0,
            labels.data_ptr<int32_t>(),
            table.data_ptr<float>(),
            static_cast<int>(shape.channels),
            static_cast<int>(shape.height),
            static_cast<int>(shape.width),
            static_cast<int>(split.images.margin),
            leading.crop_padding,
            leading.flip,
            leading.resized_crop};
  if (source.resized_crop && resized_crop_memory(source) > size_t{48} << 10)
    throw Error(Fault::usage, "data.cache_size", "images are stored too large for cuda to resize crops of them",
                "choose a smaller data.cache_size, below 2,000, or --device cpu");
}

}  // namespace fedgrab::cuda
