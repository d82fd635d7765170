#include "fedgrab/engine/packed_tensors.h"

#include <cstring>

namespace fedgrab {
namespace {

constexpr int64_t alignment = 16;

TensorLayout layout_of(const TensorMap& tensors) {
  TensorLayout layout;
  for (const auto& [name, tensor] : tensors) {
    layout.entries.push_back({name, tensor.sizes().vec(), tensor.scalar_type(), layout.bytes});
    layout.bytes += (static_cast<int64_t>(tensor.nbytes()) + alignment - 1) / alignment * alignment;
  }
  return layout;
}

}  // namespace

PackedTensors::PackedTensors(const TensorMap& tensors, std::shared_ptr<const TensorLayout>& recent) {
  if (tensors.empty()) return;
  auto layout = layout_of(tensors);
  if (recent == nullptr || *recent != layout) recent = std::make_shared<const TensorLayout>(std::move(layout));
  layout_ = recent;
  values_ = std::shared_ptr<uint8_t[]>(new uint8_t[static_cast<size_t>(layout_->bytes)]);
  size_t entry = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto here = tensor.cpu().contiguous();
    if (here.nbytes() > 0) std::memcpy(&values_[layout_->entries[entry].offset], here.data_ptr(), here.nbytes());
    ++entry;
  }
}

int64_t PackedTensors::bytes() const {
  int64_t bytes = 0;
  if (layout_ != nullptr)
    for (const auto& entry : layout_->entries)
      bytes += c10::multiply_integers(entry.shape) * static_cast<int64_t>(torch::elementSize(entry.type));
  return bytes;
}

TensorMap PackedTensors::views() const {
  TensorMap tensors;
  if (layout_ == nullptr) return tensors;
  for (const auto& entry : layout_->entries)
    tensors.emplace(entry.name, torch::from_blob(
                                    values_.get() + entry.offset, entry.shape, [values = values_](void*) {},
                                    torch::dtype(entry.type)));
  return tensors;
}

TensorMap PackedTensors::copies() const {
  TensorMap tensors = views();
  for (auto& [name, tensor] : tensors) tensor = tensor.clone();
  return tensors;
}

}  // namespace fedgrab
