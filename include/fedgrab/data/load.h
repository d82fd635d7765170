/// From parameters to a dataset: one reader per format, chosen by `data.name`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/core/enums.h"
#include "fedgrab/data/dataset.h"
#include "fedgrab/data/image.h"

namespace fedgrab {

/// Every value of data.name.
std::vector<std::string> data_set_names();

/// What is done at an image that cannot be read.
enum class BadImage { stop, skip };
template <>
inline constexpr auto enum_names<BadImage> = names("stop", "skip");

struct DataParams {
  std::string name = "shapes";
  std::string path, images;
  double test_fraction = 0.2;
  double validation = 0.0;
  int64_t size = 0;
  int64_t channels = 0;
  int64_t per_class = 300;
  int64_t test_per_class = 100;
  std::vector<std::string> augment{"auto"};
  int64_t cutout = 0;
  std::string cache;
  int64_t cache_size = 0;
  BadImage bad = BadImage::stop;
  bool verify = false;
  std::vector<double> levels;
  std::vector<double> mean, std;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("name", name, "data set: shapes is built in, the others are read from data.path").one_of(data_set_names());
    v.param("path", path, "file or folder of the data set, or of its lists");
    v.param("images", images, "lists: folder that listed paths are relative to (empty: the folder of the list)");
    v.param("test_fraction", test_fraction,
            "folder without train/ and test/, single list: fraction of each class held out as the test set")
        .between(0.01, 0.9);
    v.param("validation", validation,
            "fraction of each class of the training set held out for validation: to choose the best round and to stop "
            "early; ignored if the data set has its own validation split")
        .between(0, 0.9);
    v.param("size", size, "folder, lists: images are size x size pixels (0: 32 for a folder, 224 for lists)")
        .between(0, 4096);
    v.param("channels", channels, "folder, lists: 1 grey, 3 colour (0: colour, unless every image of a folder is grey)")
        .one_of({"0", "1", "3"});
    v.param("per_class", per_class, "shapes: training images drawn per class before the long tail is cut")
        .between(1, 1000000);
    v.param("test_per_class", test_per_class, "shapes: test images per class").between(1, 1000000);
    v.param("augment", augment,
            "augmentation of training images: operations, applied in order; auto: the usual ones for the data set")
        .one_of(augmentation_names());
    v.param("cutout", cutout, "cutout: side of the square in pixels (0: half of the image)").between(0, 4096);
    v.param("cache", cache, "lists: folder for the decoded images (empty: fedgrab/ in the user's cache folder)");
    v.param("cache_size", cache_size,
            "lists: side of the decoded squares in pixels; training crops them (0: 8/7 of data.size)")
        .between(0, 4096);
    v.param("bad", bad, "lists: stop at an unreadable image, or skip it and list it in a file next to the cache");
    v.param("verify", verify, "lists: verify the checksums of all cached images at the start");
    v.param("levels", levels,
            "folder, lists: pixel values that become black and white, as low,high, for images of more than 8 bits "
            "(empty: the window of a DICOM file, the full range elsewhere)");
    v.param("mean", mean, "normalisation mean per channel, 0..1 (empty: the data set's own)").between(0, 1);
    v.param("std", std, "normalisation standard deviation per channel (empty: the data set's own)").between(1e-3, 10);
  }
};

/// Where the images of a data set come from: made by this program, arrays of one size, a folder of files, or files that
/// lists name.
enum class Origin { built_in, arrays, folder, lists };
Origin origin_of(const DataParams& params);

/// Which files of a data set made of lists are on the disk.
struct ListedFiles {
  int64_t train = 0, test = 0;
  std::vector<std::string> missing;
  std::string images, obtain;  // what the missing are part of and where that comes from, for published sets
};
/// Empty where the data set is not made of lists.
std::optional<ListedFiles> check_listed_files(const DataParams& params, uint64_t seed);

/// Throws Error(Fault::data) naming the file at fault.
Dataset load_dataset(const DataParams& params, uint64_t seed);

/// Of data.levels, where they are set.
std::optional<Levels> levels_of(const DataParams& params);

/// Whether images are read from files of any size and resized.
bool resizes_images(const DataParams& params);

/// One image file by itself.
struct LoneImage {
  Images image;  // one, as the data set's own are read and cut
  ImageShape source;
  bool colour = false;  // three channels that differ visibly
};
/// For a model with this input.
LoneImage read_alone(const std::filesystem::path& path, const DataParams& params, ImageShape input);

// The readers. Each fills everything but the user's overrides of augmentation and normalisation.
Dataset make_shapes(int64_t train_per_class, int64_t test_per_class, uint64_t seed);
Dataset read_cifar(const std::string& path, int64_t classes);
Dataset read_idx(const std::string& path);
Dataset read_npz(const std::string& path);
Dataset read_image_folder(const std::string& path, int64_t size, int64_t channels, double test_fraction, uint64_t seed,
                          std::optional<Levels> levels = {});

/// Lists of image files, decoded once into a cache.
Dataset read_listed_images(const DataParams& params, uint64_t seed);

}  // namespace fedgrab
