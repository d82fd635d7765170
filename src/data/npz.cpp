// NumPy archives in the layout of MedMNIST: train_images, train_labels, test_images, test_labels and, if there is a
// validation split, val_images, val_labels. Images are count x height x width or count x height x width x channels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "decode.h"
#include "fedgrab/core/error.h"
#include "fedgrab/data/load.h"
#include "paths.h"
#include "zip_archive.h"

namespace fedgrab {
namespace {

/// An array of a .npy file. `type` as NumPy spells it: |u1 is a byte, <i8 a 64-bit integer.
struct Array {
  std::string name, type;
  std::vector<int64_t> shape;
  std::shared_ptr<std::vector<uint8_t>> file;
  std::span<uint8_t> elements;

  int64_t count() const { return shape.empty() ? 0 : shape.front(); }
};

class NpzReader {
 public:
  explicit NpzReader(const std::string& path) : path_(path), archive_(path) {}

  bool has(const std::string& name) const { return archive_.has(name + ".npy"); }

  Array array(const std::string& name) {
    if (!has(name))
      refuse(fmt::format("holds no {}, but {}", name, fmt::join(archive_.names(), ", ")),
             "the layout is that of MedMNIST: train_images, train_labels, test_images, test_labels, and val_images, "
             "val_labels if there are any");
    Array array{name, "", {}, std::make_shared<std::vector<uint8_t>>(archive_.read(name + ".npy")), {}};
    read_header(array);
    return array;
  }

  [[noreturn]] void refuse(const std::string& why, const std::string& hint = "write the file again") const {
    throw Error(Fault::data, path_, why, hint);
  }

 private:
  /// "\x93NUMPY", the version, the length of the header, and the header: a Python dictionary of three entries.
  void read_header(Array& array) const {
    const auto& bytes = *array.file;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with("\x93NUMPY") || text.size() < 12) refuse(array.name + " is no NumPy array");
    const size_t start = bytes[6] == 1 ? 10 : 12;
    size_t length = bytes[8] | size_t{bytes[9]} << 8U;
    if (start == 12) length |= size_t{bytes[10]} << 16U | size_t{bytes[11]} << 24U;
    if (length > text.size() - start) refuse(array.name + " is cut short");
    const auto header = text.substr(start, length);
    array.type = between(header, "'descr': '", "'").value_or("");
    const auto shape = between(header, "'shape': (", ")");
    if (!shape || array.type.empty())
      refuse(array.name + " is an array that fedgrab cannot read", "save plain numbers");
    if (between(header, "'fortran_order': ", ",") != "False")
      refuse(array.name + " is stored column by column", "save np.ascontiguousarray of it");
    array.shape = numbers(*shape);
    check_size(array, text.size() - start - length);
    array.elements = std::span(*array.file).subspan(start + length);
  }

  void check_size(const Array& array, size_t available) const {
    size_t expected = 0;
    const char width = array.type.back();
    bool fits = array.type.size() == 3 && width >= '1' && width <= '8';
    expected = fits ? static_cast<size_t>(width - '0') : 0;
    for (const int64_t length : array.shape)
      fits = fits && length >= 0 && !__builtin_mul_overflow(expected, static_cast<size_t>(length), &expected);
    if (!fits || expected != available)
      refuse(fmt::format("{} has {} bytes after its header, which announces {} of type {}", array.name, available,
                         fmt::join(array.shape, " x "), array.type));
  }

  static std::optional<std::string> between(std::string_view text, std::string_view before, std::string_view after) {
    const size_t at = text.find(before);
    if (at == std::string_view::npos) return std::nullopt;
    const auto rest = text.substr(at + before.size());
    const size_t end = rest.find(after);
    return end == std::string_view::npos ? std::nullopt : std::optional(std::string(rest.substr(0, end)));
  }

  /// -1 for what is no length, which check_size then refuses.
  static std::vector<int64_t> numbers(std::string_view text) {
    std::vector<int64_t> lengths;
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      auto word = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      while (word.starts_with(' ')) word.remove_prefix(1);
      if (word.empty()) continue;
      int64_t value = -1;
      const auto [stop, code] = std::from_chars(word.data(), word.data() + word.size(), value);
      lengths.push_back(code == std::errc{} && stop == word.data() + word.size() ? value : -1);
    }
    return lengths;
  }

  std::string path_;
  ZipArchive archive_;
};

Images images_of(const NpzReader& reader, const Array& array) {
  const auto& d = array.shape;
  if (array.type != "|u1")
    reader.refuse(fmt::format("{} has elements of type {}", array.name, array.type),
                  "save bytes, np.uint8, of 0 to 255");
  const bool empty = std::find(d.begin(), d.end(), 0) != d.end();
  const bool colour = d.size() == 4 && (d[3] == 3 || d[3] == 1);
  if (empty || (d.size() != 3 && !colour))
    reader.refuse(fmt::format("{} is {}", array.name, fmt::join(d, " x ")),
                  "images are count x height x width, or with 1 or 3 channels at the end; volumes cannot be read");
  const ImageShape shape{colour ? d[3] : 1, d[1], d[2]};
  // Each image from pixels to planes, in place: a second copy of all might not fit.
  if (shape.channels == 3)
    for (size_t at = 0, size = static_cast<size_t>(shape.size()); at < array.elements.size(); at += size) {
      const auto planes = to_planes(shape, array.elements.subspan(at, size)).bytes;
      std::copy(planes.begin(), planes.end(), array.elements.begin() + static_cast<int64_t>(at));
    }
  return {shape, array.elements, array.file};
}

std::vector<int32_t> labels_of(const NpzReader& reader, const Array& array) {
  constexpr uint64_t most_classes = 1'000'000;
  const bool column = array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1);
  if (!column)
    reader.refuse(fmt::format("{} is {}, not one label an image", array.name, fmt::join(array.shape, " x ")),
                  "several labels per image, as in ChestMNIST, are not supported; choose one of them");
  const char byte_order = array.type[0], kind = array.type[1];
  const auto width = static_cast<size_t>(array.type[2] - '0');
  if (byte_order == '>' || (kind != 'u' && kind != 'i'))
    reader.refuse(fmt::format("{} has elements of type {}", array.name, array.type), "save whole numbers, from 0 on");
  std::vector<int32_t> labels;
  labels.reserve(array.elements.size() / width);
  for (size_t at = 0; at < array.elements.size(); at += width) {
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;) value = value << 8U | array.elements[at + i];
    const bool negative = kind == 'i' && (array.elements[at + width - 1] & 0x80U) != 0;
    if (negative || value >= most_classes)
      reader.refuse(fmt::format("{} {} is no class", array.name, labels.size()), "labels are whole numbers from 0 on");
    labels.push_back(static_cast<int32_t>(value));
  }
  return labels;
}

Split read_split(NpzReader& reader, const std::string& part) {
  const Array images = reader.array(part + "_images"), labels = reader.array(part + "_labels");
  if (images.count() != labels.count())
    reader.refuse(fmt::format("holds {} {}_images and {} {}_labels", images.count(), part, labels.count(), part));
  return {images_of(reader, images), labels_of(reader, labels)};
}

void check_part(const NpzReader& reader, const Dataset& data, const Split& part, const std::string& name) {
  if (part.images.shape != data.train.images.shape)
    reader.refuse(fmt::format("{}_images and train_images differ in size", name));
  if (*std::max_element(part.labels.begin(), part.labels.end()) >= data.classes())
    reader.refuse(fmt::format("{}_labels has a class that train_labels ends before", name));
}

}  // namespace

Dataset read_npz(const std::string& path) {
  if (!is_file(path)) throw Error(Fault::data, path, "is not a file", "data.path names the .npz file");
  NpzReader reader(path);
  Dataset data;
  data.name = "npz";
  data.train = read_split(reader, "train");
  const int32_t last = *std::max_element(data.train.labels.begin(), data.train.labels.end());
  for (int32_t label = 0; label <= last; ++label) data.class_names.push_back(std::to_string(label));
  data.test = read_split(reader, "test");
  check_part(reader, data, data.test, "test");
  if (reader.has("val_images")) {
    data.validation = read_split(reader, "val");
    check_part(reader, data, data.validation, "val");
  }
  const bool grey = data.shape().channels == 1;
  data.normalisation = grey ? Normalisation{{0.5F}, {0.25F}} : imagenet_normalisation();
  data.augmentation = {crop(static_cast<int32_t>(data.shape().height / 8)), flip()};
  return data;
}

}  // namespace fedgrab
