#include "device_images.h"

#include <algorithm>

#include "fedgrab/core/error.h"
#include "fedgrab/data/batch.h"

namespace fedgrab::cuda {

DeviceImages::DeviceImages(const Split& split, const Normalisation& normalisation, const Augmentation& augmentation,
                           bool stream_it)
    : streamed(stream_it), lists_{augmentation.of_view(0), augmentation.of_view(1)} {
  const auto shape = split.images.shape;
  if (!streamed)
    pixels = torch::from_blob(const_cast<uint8_t*>(split.images.bytes.data()),
                              {static_cast<int64_t>(split.images.bytes.size())}, torch::kByte)
                 .cuda();
  labels = torch::tensor(split.labels, torch::kInt).cuda();
  const auto tables = byte_tables(normalisation, shape.channels);
  table = torch::from_blob(const_cast<float*>(tables.front().data()), {shape.channels, 256}).cuda();
  source.pixels = streamed ? nullptr : pixels.data_ptr<uint8_t>();
  source.labels = labels.data_ptr<int32_t>();
  source.table = table.data_ptr<float>();
  source.channels = static_cast<int>(shape.channels);
  source.height = static_cast<int>(shape.height);
  source.width = static_cast<int>(shape.width);
  source.margin = static_cast<int>(split.images.margin);
  size_t room = 0;
  for (const uint32_t view : {0U, 1U}) {
    const BatchSource viewed = of_view(view);
    room = std::max(room, augmentation_scratch(viewed));
    if (gather_memory(viewed) > size_t{48} << 10)
      throw Error(Fault::usage, "data.cache_size", "images are stored too large for cuda to resize crops of them",
                  "choose a smaller data.cache_size, below 2,000, or --device cpu");
  }
  if (room > 0) scratch = torch::empty({static_cast<int64_t>(room)}, torch::dtype(torch::kByte).device(torch::kCUDA));
  source = of_view(0);
}

BatchSource DeviceImages::of_view(uint32_t view) const {
  BatchSource viewed = source;
  viewed.view = view;
  viewed.operations = lists_[std::min<size_t>(view, 1)];
  viewed.leading = leading_crop_and_flip(viewed.operations);
  viewed.scratch = scratch.defined() ? scratch.data_ptr<uint8_t>() : nullptr;
  return viewed;
}

}  // namespace fedgrab::cuda
