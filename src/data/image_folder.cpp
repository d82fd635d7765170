// A folder of classes, each a folder of image files; either already split into train/ and test/ or split here.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/core/patient_progress.h"
#include "fedgrab/data/image.h"
#include "fedgrab/data/load.h"
#include "paths.h"
#include "source_sizes.h"
#include "test_share.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

constexpr std::array validation_names{"val", "validation"};

struct ClassFolder {
  std::string name;
  std::vector<fs::path> files;
};

struct FolderPart {
  std::vector<fs::path> files;
  std::vector<int32_t> labels;

  void add(const fs::path& file, size_t label) {
    files.push_back(file);
    labels.push_back(static_cast<int32_t>(label));
  }
};

struct Sources {
  std::vector<std::string> class_names;
  FolderPart train, validation, test;
};

/// Sorted, so that nothing depends on the order in which a file system lists.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> entries;
  fs::directory_iterator entry(folder, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) entries.push_back(entry->path());
  if (code) throw Error(Fault::data, folder.string(), "cannot be listed: " + code.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<ClassFolder> classes_in(const fs::path& folder) {
  std::vector<ClassFolder> classes;
  for (const auto& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    if (!is_folder(entry) || name.starts_with('.')) continue;
    ClassFolder found{name, entries_of(entry)};
    std::erase_if(found.files, [](const fs::path& file) { return !is_image_file(file); });
    if (found.files.empty())
      throw Error(Fault::data, entry.string(), "holds no images",
                  "a class needs PNG, JPEG, TIFF, WebP, DICOM, PPM or PGM files");
    classes.push_back(std::move(found));
  }
  return classes;
}

void check_classes(const fs::path& folder, const std::vector<ClassFolder>& classes) {
  if (classes.empty())
    throw Error(Fault::data, folder.string(), "holds no class folders", "expected one folder of images per class");
}

Sources split_by_folder(const fs::path& root) {
  const auto train = classes_in(root / "train");
  check_classes(root / "train", train);
  Sources sources;
  for (size_t label = 0; label < train.size(); ++label) {
    sources.class_names.push_back(train[label].name);
    for (const auto& file : train[label].files) sources.train.add(file, label);
  }
  const auto add_part = [&](const char* part, FolderPart& listing) {
    for (const auto& found : classes_in(root / part)) {
      const auto known = std::find(sources.class_names.begin(), sources.class_names.end(), found.name);
      if (known == sources.class_names.end())
        throw Error(Fault::data, (root / part / found.name).string(), "is a class without training images",
                    fmt::format("add it to train/ or remove it from {}/", part));
      for (const auto& file : found.files) listing.add(file, static_cast<size_t>(known - sources.class_names.begin()));
    }
  };
  for (const char* part : validation_names)
    if (is_folder(root / part)) add_part(part, sources.validation);
  add_part("test", sources.test);
  if (sources.test.files.empty()) throw Error(Fault::data, (root / "test").string(), "holds no class folders");
  return sources;
}

Sources split_by_seed(const fs::path& root, double test_fraction, uint64_t seed) {
  const auto classes = classes_in(root);
  check_classes(root, classes);
  Sources sources;
  for (size_t label = 0; label < classes.size(); ++label) {
    const auto& [name, files] = classes[label];
    const auto for_test = test_share(files.size(), test_fraction, seed, label);
    for (size_t i = 0; i < files.size(); ++i) (for_test[i] ? sources.test : sources.train).add(files[i], label);
    sources.class_names.push_back(name);
  }
  if (sources.test.files.empty())
    throw Error(Fault::data, root.string(), "no class holds two images, one to train and one to test", "add images");
  return sources;
}

Sources find_sources(const fs::path& root, double test_fraction, uint64_t seed) {
  if (!is_folder(root))
    throw Error(Fault::data, root.string(), "is not a folder", "set data.path to the folder of the class folders");
  const bool train = is_folder(root / "train"), test = is_folder(root / "test");
  if (train && test) return split_by_folder(root);
  // Without test/, train/ may still be a class of its own (as in cars, ships and trains) if it holds images.
  const auto holds_folder = [](const fs::path& folder) {
    const auto entries = entries_of(folder);
    return std::any_of(entries.begin(), entries.end(), is_folder);
  };
  if (train && holds_folder(root / "train"))
    throw Error(Fault::data, root.string(), "holds train/ but no test/", "add test/ with the same class folders");
  return split_by_seed(root, test_fraction, seed);
}

/// Of images in `channels` equal planes, the first one.
std::vector<uint8_t> first_planes(const std::vector<uint8_t>& bytes, ImageShape shape) {
  const auto plane = shape.height * shape.width;
  std::vector<uint8_t> planes;
  planes.reserve(bytes.size() / static_cast<size_t>(shape.channels));
  for (auto image = bytes.begin(); image != bytes.end(); image += shape.size())
    planes.insert(planes.end(), image, image + plane);
  return planes;
}

/// `channels` 0: colour unless every file is grey.
Images decode_all(const std::vector<fs::path>& files, int64_t size, int64_t channels, std::optional<Levels> levels,
                  std::vector<ImageShape>& file_shapes) {
  ImageShape shape{channels == 0 ? 3 : channels, size, size};
  std::vector<uint8_t> bytes(files.size() * static_cast<size_t>(shape.size()));
  std::atomic<bool> colour = false;
  file_shapes.resize(files.size());
  PatientProgress progress("reading images", static_cast<int64_t>(files.size()));
  parallel_for(static_cast<int64_t>(files.size()), available_cores(), [&](int64_t i, int /*worker*/) {
    throw_if_interrupted();
    const Image file = read_image(files[static_cast<size_t>(i)], 0, levels);
    if (file.shape.channels == 3) colour = true;
    file_shapes[static_cast<size_t>(i)] = file.shape;
    const Image image = with_channels(resize(file, size, size), shape.channels);
    std::memcpy(bytes.data() + i * shape.size(), image.bytes.data(), image.bytes.size());
    progress.step();
  });
  if (channels == 0 && !colour) {
    bytes = first_planes(bytes, shape);
    shape.channels = 1;
  }
  return Images::own(shape, std::move(bytes));
}

}  // namespace

Dataset read_image_folder(const std::string& path, int64_t size, int64_t channels, double test_fraction, uint64_t seed,
                          std::optional<Levels> levels) {
  if (channels != 0 && channels != 1 && channels != 3)
    throw Error(Fault::usage, "data.channels", fmt::format("{} is not possible", channels),
                "1 is grey, 3 colour, 0 looks at the images");
  if (size == 0) size = 32;
  Sources sources = find_sources(path, test_fraction, seed);
  // One pass over all parts, so that they agree on grey or colour.
  std::vector<fs::path> files;
  for (const auto* part : {&sources.train, &sources.test, &sources.validation})
    files.insert(files.end(), part->files.begin(), part->files.end());
  std::vector<ImageShape> file_shapes;
  const Images all = decode_all(files, size, channels, levels, file_shapes);

  Dataset data;
  data.name = "folder";
  size_t first = 0;
  const auto take = [&](FolderPart& part) {
    const size_t bytes = part.files.size() * static_cast<size_t>(all.shape.size());
    const auto images = all.bytes.subspan(std::exchange(first, first + bytes), bytes);
    return Split{{all.shape, images, all.owner}, std::move(part.labels)};
  };
  data.train = take(sources.train);
  data.test = take(sources.test);
  data.validation = take(sources.validation);
  data.class_names = std::move(sources.class_names);
  data.normalisation = all.shape.channels == 1 ? Normalisation{{0.5F}, {0.25F}} : imagenet_normalisation();
  data.augmentation = {crop(size / 8), flip()};
  data.sources = source_sizes(std::move(file_shapes));
  return data;
}

}  // namespace fedgrab
