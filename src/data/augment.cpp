#include "fedgrab/data/augment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fedgrab/core/enums.h"
#include "fedgrab/core/error.h"
#include "fedgrab/data/augment/operations.h"

namespace fedgrab {
namespace {

/// Names in data.augment that stand for a list: the data set's own operations, or none at all.
enum class NamedList { usual, empty };

}  // namespace

template <>
inline constexpr auto enum_names<NamedList> = names("auto", "none");

namespace {

template <class... Kinds>
std::vector<std::string> names_of(OperationKinds<Kinds...> /*list*/) {
  return {Kinds::name...};
}

const std::vector<std::string>& operation_names() {
  static const auto names = names_of(ImageOperations{});
  return names;
}

const std::string& name_of(const Operation& operation) {
  return operation_names().at(static_cast<size_t>(operation.kind));
}

template <class... Kinds>
Operation make(OperationKinds<Kinds...> /*list*/, int32_t kind, const OperationSetup& setup) {
  Operation operation;
  ((kind == kind_of<Kinds> ? void(operation = Kinds::make(setup)) : void()), ...);
  operation.kind = kind;
  return operation;
}

Operation make_operation(const std::string& name, const OperationSetup& setup) {
  const auto& names = operation_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw Error(Fault::usage, "data.augment", fmt::format("unknown operation {}", name),
                fmt::format("auto, none, or some of {}", fmt::join(names, ", ")));
  return make(ImageOperations{}, static_cast<int32_t>(found - names.begin()), setup);
}

bool crops(const Operation& operation) {
  return operation.kind == kind_of<Crop> || operation.kind == kind_of<ResizedCrop>;
}
bool flips(const Operation& operation) { return operation.kind == kind_of<Flip>; }

std::vector<std::string> split_at_plus(const std::string& name) {
  std::vector<std::string> parts;
  for (size_t first = 0, plus = 0; plus != std::string::npos; first = plus + 1) {
    plus = name.find('+', first);
    parts.push_back(name.substr(first, plus - first));
  }
  return parts;
}

}  // namespace

void OperationList::add(const Operation& operation) {
  const auto refuse = [&](const std::string& why, const std::string& hint) {
    throw Error(Fault::usage, "data.augment", fmt::format("{} {}", name_of(operation), why), hint);
  };
  if (count == capacity) refuse("is one operation too many", fmt::format("at most {}", capacity));
  for (const Operation& other : *this)
    if ((crops(operation) && crops(other)) || (flips(operation) && flips(other)))
      refuse(fmt::format("stands behind {}", name_of(other)), "name one crop and one flip at most");
  if (operation.kind == kind_of<ResizedCrop> && leading_crop_and_flip(*this).operations < count)
    refuse("must be the first operation", "put resized-crop first: it reads the stored image");
  items[count++] = operation;
}

std::string OperationList::to_text() const {
  std::vector<std::string> names;
  for (const Operation& operation : *this) names.push_back(name_of(operation));
  return fmt::format("{}", fmt::join(names, ","));
}

Augmentation::Augmentation(std::initializer_list<Operation> list) {
  for (const Operation& operation : list) operations.add(operation);
}

Operation crop(int64_t padding) { return {kind_of<Crop>, static_cast<int32_t>(padding), {}}; }
Operation flip() { return {kind_of<Flip>, 0, {}}; }
Operation resized_crop() { return {kind_of<ResizedCrop>, 0, {}}; }

CropAndFlip leading_crop_and_flip(const OperationList& list) {
  CropAndFlip leading;
  for (const Operation& operation : list) {
    if (!crops(operation) && !flips(operation)) break;
    if (operation.kind == kind_of<Crop>) leading.crop_padding = operation.value;
    leading.resized_crop |= operation.kind == kind_of<ResizedCrop>;
    leading.flip |= flips(operation);
    ++leading.operations;
  }
  return leading;
}

std::vector<std::string> augmentation_names() {
  std::vector<std::string> names = all_names<NamedList>();
  names.insert(names.end(), operation_names().begin(), operation_names().end());
  names.insert(names.end(), {"crop+flip", "resized-crop+flip"});
  return names;
}

Augmentation make_augmentation(const std::vector<std::string>& names, const Augmentation& usual,
                               const OperationSetup& setup) {
  Augmentation augmentation;
  for (const auto& entry : names)
    for (const auto& name : split_at_plus(entry)) {
      const auto list = enum_named<NamedList>(name);
      if (!list)
        augmentation.operations.add(make_operation(name, setup));
      else if (*list == NamedList::usual)
        for (const Operation& operation : usual.operations) augmentation.operations.add(operation);
    }
  return augmentation;
}

}  // namespace fedgrab
