/// Augmentation of training images: an ordered list of operations, plain enough to be passed to a CUDA kernel by value.
/// The operations are in augment/, one file each. nvcc compiles this header as C++17.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace fedgrab {

/// One operation with its parameter.
struct Operation {
  int32_t kind = 0;      // index in ImageOperations of augment/operations.h
  int32_t value = 0;     // crop: padding in pixels; cutout: side of the square
  uint8_t fill[4] = {};  // cutout: colour of the square, per channel
};

struct OperationList {
  static constexpr int32_t capacity = 8;
  Operation items[capacity] = {};
  int32_t count = 0;

  const Operation* begin() const { return items; }
  const Operation* end() const { return items + count; }
  /// Throws a usage Error where the list is full, or where the operation cannot stand at this place.
  void add(const Operation& operation);
  /// Comma-separated names.
  std::string to_text() const;
};

/// What training does to an image before it is normalised.
struct Augmentation {
  OperationList operations;
  std::optional<OperationList> second;  // of the second view of a sample; empty: the same operations

  Augmentation() = default;
  Augmentation(std::initializer_list<Operation> list);
  const OperationList& of_view(uint32_t view) const { return view > 0 && second ? *second : operations; }
};

Operation crop(int64_t padding);
Operation flip();
Operation resized_crop();

/// The crop and the flip that a list begins with. They choose the stored pixels that are read, so they cost no pass
/// over the image.
struct CropAndFlip {
  int32_t crop_padding = 0;  // 0: no random crop
  bool flip = false;
  bool resized_crop = false;  // instead: a part of random area and aspect, resized
  int32_t operations = 0;     // of the list, that these are
};
CropAndFlip leading_crop_and_flip(const OperationList& list);

/// What operations take their parameters from.
struct OperationSetup {
  int32_t height = 0, width = 0;  // of the images
  int32_t crop_padding = 0;
  int32_t cutout = 0;    // side of the square; 0: half of the image
  uint8_t mean[4] = {};  // colour that is 0 after normalisation
};

/// Every value of data.augment: "auto", "none", the operations by name, and the spellings of version 0.1.
std::vector<std::string> augmentation_names();

/// The operations named, in this order; "auto" stands for `usual`. Throws a usage Error that names data.augment.
Augmentation make_augmentation(const std::vector<std::string>& names, const Augmentation& usual,
                               const OperationSetup& setup);

}  // namespace fedgrab
