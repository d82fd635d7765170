// The binary version of CIFAR: records of one label (CIFAR-100: coarse, then fine), then the R, G and B planes.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <sstream>

#include "cifar_names.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/data/load.h"
#include "paths.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

constexpr ImageShape cifar_shape{3, 32, 32};

struct Format {
  std::string name;
  size_t label_bytes;  // the last of them is the class
  std::vector<std::string> class_names;
  std::string names_file;
  std::vector<std::string> folders;  // where archives and tools put the files

  size_t record() const { return label_bytes + static_cast<size_t>(cifar_shape.size()); }
};

Format format_of(int64_t classes) {
  if (classes == 10)
    return {"cifar10",
            1,
            {cifar10_names.begin(), cifar10_names.end()},
            "batches.meta.txt",
            {"cifar-10-batches-bin", "cifar-10-lt"}};
  return {"cifar100",
          2,
          {cifar100_names.begin(), cifar100_names.end()},
          "fine_label_names.txt",
          {"cifar-100-binary", "cifar-100-lt"}};
}

struct Files {
  std::vector<fs::path> train;
  fs::path test;
};

std::optional<fs::path> test_file_in(const fs::path& folder) {
  for (const char* name : {"test.bin", "test_batch.bin"})
    if (is_file(folder / name)) return folder / name;
  return std::nullopt;
}

fs::path required_test_file(const fs::path& folder) {
  if (const auto test = test_file_in(folder)) return *test;
  throw Error(Fault::data, folder.string(), "holds no test.bin or test_batch.bin",
              "the test images must be in the folder of the training images");
}

std::optional<Files> files_in(const fs::path& folder) {
  if (is_file(folder / "train.bin")) return Files{{folder / "train.bin"}, required_test_file(folder)};
  if (!is_file(folder / "data_batch_1.bin")) return std::nullopt;
  Files files{{}, required_test_file(folder)};
  for (int batch = 1; batch <= 5; ++batch) files.train.push_back(folder / fmt::format("data_batch_{}.bin", batch));
  return files;
}

Files find_files(const fs::path& path, const Format& format) {
  if (is_file(path)) {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const fs::path test = required_test_file(folder);
    if (test.filename() == path.filename())
      throw Error(Fault::data, path.string(), "is the test file", "name the training file or the folder");
    return {{path}, test};
  }
  if (!is_folder(path))
    throw Error(Fault::data, path.string(), "no such file or folder", "set data.path to the folder of the data set");
  if (auto files = files_in(path)) return *files;
  for (const auto& inner : format.folders)
    if (auto files = files_in(path / inner)) return *files;
  throw Error(Fault::data, path.string(), fmt::format("holds no {} in its binary version", format.name),
              "expected train.bin and test.bin, or data_batch_1.bin to data_batch_5.bin and test_batch.bin");
}

void append_records(const fs::path& path, const Format& format, std::vector<uint8_t>& pixels,
                    std::vector<int32_t>& labels) {
  const auto bytes = read_bytes(path);
  if (bytes.empty() || bytes.size() % format.record() != 0)
    throw Error(Fault::data, path.string(),
                fmt::format("is {} bytes long, which is not a whole number of {}-byte {} records", bytes.size(),
                            format.record(), format.name),
                "the file is truncated or of another format");
  const size_t count = bytes.size() / format.record();
  pixels.reserve(pixels.size() + count * static_cast<size_t>(cifar_shape.size()));
  labels.reserve(labels.size() + count);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* record = bytes.data() + i * format.record();
    const uint8_t label = record[format.label_bytes - 1];
    if (label >= format.class_names.size())
      throw Error(Fault::data, path.string(),
                  fmt::format("record {} of {} has label {}, {} has labels 0 to {}", i + 1, count, label, format.name,
                              format.class_names.size() - 1),
                  "the file is damaged or of another format");
    labels.push_back(label);
    pixels.insert(pixels.end(), record + format.label_bytes, record + format.record());
  }
}

Split read_split(const std::vector<fs::path>& files, const Format& format) {
  std::vector<uint8_t> pixels;
  Split split;
  for (const auto& file : files) append_records(file, format, pixels, split.labels);
  split.images = Images::own(cifar_shape, std::move(pixels));
  return split;
}

std::vector<std::string> class_names_in(const fs::path& folder, const Format& format) {
  const fs::path file = folder / format.names_file;
  if (!is_file(file)) return format.class_names;
  std::vector<std::string> names;
  std::istringstream text(read_text(file));
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.size() != format.class_names.size())
    throw Error(Fault::data, file.string(),
                fmt::format("holds {} class names, {} has {}", names.size(), format.name, format.class_names.size()),
                "repair or remove it");
  return names;
}

}  // namespace

Dataset read_cifar(const std::string& path, int64_t classes) {
  const Format format = format_of(classes);
  const Files files = find_files(path, format);
  Dataset data;
  data.name = format.name;
  data.train = read_split(files.train, format);
  data.test = read_split({files.test}, format);
  data.class_names = class_names_in(files.test.parent_path(), format);
  data.normalisation = imagenet_normalisation();
  data.augmentation = {crop(4), flip()};
  data.balanced = true;
  return data;
}

}  // namespace fedgrab
