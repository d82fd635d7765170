// IDX, the format of MNIST and its relatives: two zero bytes, the element type, the number of dimensions, the
// dimensions as big-endian 32-bit numbers, then the elements.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "decode.h"
#include "fedgrab/core/error.h"
#include "fedgrab/data/load.h"
#include "gzip.h"
#include "paths.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

struct IdxFile {
  fs::path path;
  std::vector<int64_t> dimensions;
  std::shared_ptr<const std::vector<uint8_t>> bytes;
  std::span<const uint8_t> elements;

  int64_t count() const { return dimensions[0]; }
};

std::optional<fs::path> find_file(const fs::path& folder, const std::vector<std::string>& stems,
                                  const std::vector<std::string>& kinds) {
  for (const auto& stem : stems)
    for (const auto& kind : kinds)
      for (const char* separator : {"-", "."})
        for (const char* ending : {"", ".gz"})
          if (const fs::path path = folder / fmt::format("{}{}{}{}", stem, separator, kind, ending); is_file(path))
            return path;
  return std::nullopt;
}

fs::path required_file(const fs::path& folder, const std::vector<std::string>& stems,
                       const std::vector<std::string>& kinds) {
  if (const auto path = find_file(folder, stems, kinds)) return *path;
  throw Error(Fault::data, folder.string(), fmt::format("holds no {}-{}, packed (.gz) or not", stems[0], kinds[0]),
              "data.path names the folder of the four IDX files");
}

int64_t big_endian(const uint8_t* bytes) {
  return int64_t{bytes[0]} << 24 | int64_t{bytes[1]} << 16 | int64_t{bytes[2]} << 8 | int64_t{bytes[3]};
}

/// The number of elements by the header, before memory is taken for more than the file can hold.
size_t announced_size(const IdxFile& file) {
  size_t size = 1;
  bool fits = true;
  for (const int64_t dimension : file.dimensions)
    fits = fits && !__builtin_mul_overflow(size, static_cast<size_t>(dimension), &size);
  if (!fits || size / best_deflate_ratio > fs::file_size(file.path))
    throw Error(Fault::data, file.path.string(),
                fmt::format("is too short for the {} that its header announces", fmt::join(file.dimensions, " x ")),
                "the file is truncated or damaged");
  return size;
}

/// As many bytes as there are, up to `count`.
std::vector<uint8_t> up_to(size_t count, GzipReader& reader) {
  std::vector<uint8_t> bytes(count);
  bytes.resize(reader.read(bytes));
  return bytes;
}

void read_dimensions(IdxFile& file, GzipReader& reader) {
  const auto magic = up_to(4, reader);
  const std::string path = file.path.string();
  if (magic.size() < 4 || magic[0] != 0 || magic[1] != 0)
    throw Error(Fault::data, path, "is not an IDX file: its first four bytes are not an IDX magic number");
  if (magic[2] != 0x08)
    throw Error(Fault::data, path, fmt::format("has elements of IDX type 0x{:02X}", magic[2]),
                "only unsigned bytes, 0x08, are supported");
  const size_t size = 4 * size_t{magic[3]};
  const auto dimensions = up_to(size, reader);
  if (size == 0 || dimensions.size() < size)
    throw Error(Fault::data, path, "ends within its header", "the file is truncated or damaged");
  for (size_t at = 0; at < size; at += 4) file.dimensions.push_back(big_endian(dimensions.data() + at));
}

/// No more is unpacked than the header announces: a packed file may hold a thousand times its size.
IdxFile open_idx(const fs::path& path) {
  IdxFile file{path, {}, nullptr, {}};
  GzipReader reader(path);
  read_dimensions(file, reader);
  const size_t announced = announced_size(file);
  auto bytes = up_to(announced, reader);
  const bool more = !up_to(1, reader).empty();
  if (more || bytes.size() < announced)
    throw Error(Fault::data, path.string(),
                fmt::format("holds {}{} bytes after its header, which announces {}", more ? "more than " : "",
                            bytes.size(), fmt::join(file.dimensions, " x ")),
                "the file is truncated or damaged");
  file.bytes = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  file.elements = *file.bytes;
  return file;
}

/// Pixel by pixel (row, column, channel) to planes.
Images planes_of(const IdxFile& file, ImageShape shape) {
  std::vector<uint8_t> planes;
  planes.reserve(file.elements.size());
  for (int64_t i = 0; i < file.count(); ++i) {
    const auto pixels = file.elements.subspan(static_cast<size_t>(i * shape.size()), static_cast<size_t>(shape.size()));
    const auto image = to_planes(shape, pixels);
    planes.insert(planes.end(), image.bytes.begin(), image.bytes.end());
  }
  return Images::own(shape, std::move(planes));
}

Images images_of(const IdxFile& file) {
  const auto& d = file.dimensions;
  const bool empty = std::find(d.begin(), d.end(), 0) != d.end();
  if (empty || d.size() < 3 || d.size() > 4)
    throw Error(Fault::data, file.path.string(), fmt::format("holds {}, not images", fmt::join(d, " x ")),
                "expected count x height x width, with 3 channels before or after them for colour");
  const auto in_place = [&](ImageShape shape) { return Images{shape, file.elements, file.bytes}; };
  if (d.size() == 3) return in_place({1, d[1], d[2]});
  for (const int64_t channels : {3, 1}) {  // three first: a height of 1 is not to pass for one channel
    if (d[1] == channels) return in_place({channels, d[2], d[3]});
    if (d[3] == channels) return planes_of(file, {channels, d[1], d[2]});
  }
  throw Error(Fault::data, file.path.string(), fmt::format("holds {}", fmt::join(d, " x ")),
              "colour images have 3 channels, before or after height and width");
}

Split read_split(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::string> image_stems, label_stems;
  for (const auto& name : names) {
    image_stems.push_back(name + "-images");
    label_stems.push_back(name + "-labels");
  }
  const IdxFile images = open_idx(required_file(folder, image_stems, {"idx3-ubyte", "idx4-ubyte"}));
  const IdxFile labels = open_idx(required_file(folder, label_stems, {"idx1-ubyte"}));
  if (labels.dimensions.size() != 1)
    throw Error(Fault::data, labels.path.string(),
                fmt::format("holds {}, not a list of labels", fmt::join(labels.dimensions, " x ")));
  if (images.count() != labels.count())
    throw Error(Fault::data, labels.path.string(),
                fmt::format("holds {} labels for the {} images of {}", labels.count(), images.count(),
                            images.path.filename().string()),
                "the two files belong to different sets");
  return {images_of(images), {labels.elements.begin(), labels.elements.end()}};
}

void check_pair(const std::string& path, const Split& train, const Split& test) {
  if (train.images.shape != test.images.shape)
    throw Error(Fault::data, path, "training and test images differ in size",
                "the files belong to different data sets");
  const int32_t last = *std::max_element(train.labels.begin(), train.labels.end());
  const int32_t last_tested = *std::max_element(test.labels.begin(), test.labels.end());
  if (last < 1) throw Error(Fault::data, path, "has fewer than two classes");
  if (last_tested > last)
    throw Error(Fault::data, path, fmt::format("has test label {}, training labels end at {}", last_tested, last),
                "the files belong to different data sets");
}

}  // namespace

Dataset read_idx(const std::string& path) {
  if (!is_folder(path))
    throw Error(Fault::data, path, "is not a folder", "data.path names the folder of the four IDX files");
  Dataset data;
  data.name = "idx";
  data.train = read_split(path, {"train"});
  data.test = read_split(path, {"t10k", "test"});
  check_pair(path, data.train, data.test);
  const int32_t last = *std::max_element(data.train.labels.begin(), data.train.labels.end());
  for (int32_t label = 0; label <= last; ++label) data.class_names.push_back(std::to_string(label));
  const bool grey = data.shape().channels == 1;
  data.normalisation = grey ? Normalisation{{0.1307F}, {0.3081F}} : imagenet_normalisation();
  data.balanced = true;
  return data;
}

}  // namespace fedgrab
