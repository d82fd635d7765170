/// A labelled set of images as bytes, train and test, and what a model needs to know of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fedgrab/data/augment.h"

namespace fedgrab {

struct ImageShape {
  int64_t channels = 3, height = 32, width = 32;
  int64_t size() const { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// Images of one shape, planes of bytes (channel, row, column). The bytes may be a vector or a mapped file: `owner`
/// keeps them alive, copies are cheap.
struct Images {
  ImageShape shape;  // what a model sees
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
  int64_t margin = 0;  // pixels stored beyond that on every side, for crops to move in

  ImageShape stored() const { return {shape.channels, shape.height + 2 * margin, shape.width + 2 * margin}; }
  int64_t count() const { return static_cast<int64_t>(bytes.size()) / stored().size(); }
  std::span<const uint8_t> at(int64_t i) const {
    const auto size = static_cast<size_t>(stored().size());
    return bytes.subspan(static_cast<size_t>(i) * size, size);
  }
  /// Takes the vector over.
  static Images own(ImageShape shape, std::vector<uint8_t> bytes);
};

struct Split {
  Images images;
  std::vector<int32_t> labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

/// Per channel, on the scale where a byte is 0..1.
struct Normalisation {
  std::vector<float> mean, std;
};

/// Of the files behind a set, before anything was done to them.
struct SourceSizes {
  ImageShape smallest, median, largest;  // by area
};

struct Dataset {
  std::string name;
  Split train, test;
  /// Empty unless the set comes with a validation split of its own.
  Split validation;
  std::vector<std::string> class_names;
  Normalisation normalisation;
  Augmentation augmentation;
  /// The owner of each training sample, if the data set states it.
  std::vector<int32_t> clients;
  /// The group of each training sample, such as a patient: samples of one group stay on one side of every split and
  /// with one client. Empty where the set does not say.
  std::vector<int32_t> groups;
  /// Files that were left out because they could not be read.
  std::vector<std::string> skipped;
  std::optional<SourceSizes> sources;
  /// True where the set is balanced by construction and a long tail is to be cut from it.
  bool balanced = false;

  int64_t classes() const { return static_cast<int64_t>(class_names.size()); }
  ImageShape shape() const { return train.images.shape; }
};

/// ImageNet's statistics, the usual choice for natural colour images.
Normalisation imagenet_normalisation();

/// Images per class of the samples named by `indices`.
std::vector<int64_t> class_counts(std::span<const int32_t> labels, std::span<const int64_t> indices, int64_t classes);
std::vector<int64_t> class_counts(std::span<const int32_t> labels, int64_t classes);

}  // namespace fedgrab
