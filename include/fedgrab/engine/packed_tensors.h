/// A TensorMap as one block of memory. A tensor of its own takes about 700 bytes beside its values, and clients have
/// many small ones: a million clients with balancers fit into 1 GB instead of 9.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fedgrab/model/tensor_map.h"

namespace fedgrab {

/// Names, shapes and places, which clients of one run share.
struct TensorLayout {
  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
    torch::ScalarType type;
    int64_t offset;  // in bytes
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries;
  int64_t bytes = 0;
  bool operator==(const TensorLayout&) const = default;
};

class PackedTensors {
 public:
  PackedTensors() = default;
  /// Takes over `recent` where it is the layout of these tensors; else `recent` becomes their own.
  PackedTensors(const TensorMap& tensors, std::shared_ptr<const TensorLayout>& recent);

  bool empty() const { return layout_ == nullptr; }
  /// Null where it is empty.
  const TensorLayout* layout() const { return layout_.get(); }
  /// The bytes of one tensor of the layout.
  const uint8_t* values(const TensorLayout::Entry& entry) const { return values_.get() + entry.offset; }
  /// Of the values.
  int64_t bytes() const;
  /// Share the memory, which lives as long as they do. Not to be written to.
  TensorMap views() const;
  TensorMap copies() const;

 private:
  std::shared_ptr<const TensorLayout> layout_;  // null: no tensors
  std::shared_ptr<uint8_t[]> values_;
};

}  // namespace fedgrab
