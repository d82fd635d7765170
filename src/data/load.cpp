#include "fedgrab/data/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "fedgrab/core/error.h"
#include "fedgrab/core/registry.h"
#include "fedgrab/data/image.h"
#include "listed_images.h"

namespace fedgrab {
namespace {

struct DataFormat {
  std::string name;
  Origin origin;
  Dataset (*read)(const DataParams& params, uint64_t seed);
};

const std::vector<DataFormat>& data_formats() {
  using Params = DataParams;
  static const std::vector<DataFormat> formats{
      {"shapes", Origin::built_in,
       [](const Params& p, uint64_t seed) { return make_shapes(p.per_class, p.test_per_class, seed); }},
      {"cifar10", Origin::arrays, [](const Params& p, uint64_t) { return read_cifar(p.path, 10); }},
      {"cifar100", Origin::arrays, [](const Params& p, uint64_t) { return read_cifar(p.path, 100); }},
      {"idx", Origin::arrays, [](const Params& p, uint64_t) { return read_idx(p.path); }},
      {"npz", Origin::arrays, [](const Params& p, uint64_t) { return read_npz(p.path); }},
      {"folder", Origin::folder,
       [](const Params& p, uint64_t seed) {
         return read_image_folder(p.path, p.size, p.channels, p.test_fraction, seed, levels_of(p));
       }},
      {"imagenet-lt", Origin::lists, read_listed_images},
      {"places-lt", Origin::lists, read_listed_images},
      {"inaturalist-2018", Origin::lists, read_listed_images},
      {"inaturalist-user", Origin::lists, read_listed_images},
      {"list", Origin::lists, read_listed_images},
  };
  return formats;
}

const DataFormat& format_of(const DataParams& params) {
  return find_in(data_formats(), "data.name", params.name, fmt::format("one of {}", fmt::join(data_set_names(), ", ")));
}

Dataset read_by_name(const DataParams& params, uint64_t seed) {
  const DataFormat& format = format_of(params);
  if (format.origin != Origin::built_in && params.path.empty())
    throw Error(Fault::usage, "data.path", fmt::format("is not set, and {} is read from there", params.name),
                "name the file or folder of the data set");
  return format.read(params, seed);
}

Augmentation chosen_augmentation(const DataParams& params, const Dataset& data) {
  const auto height = static_cast<int32_t>(data.shape().height), width = static_cast<int32_t>(data.shape().width);
  OperationSetup setup{height, width};
  setup.cutout = static_cast<int32_t>(params.cutout);
  // Four pixels of 32 are the usual padding; other sizes keep that share.
  setup.crop_padding = std::max(1, std::min(height, width) / 8);
  const int32_t own = leading_crop_and_flip(data.augmentation.operations).crop_padding;
  if (own > 0) setup.crop_padding = own;
  const auto& mean = data.normalisation.mean;
  for (size_t c = 0; c < std::min(mean.size(), std::size(setup.mean)); ++c)
    setup.mean[c] = static_cast<uint8_t>(std::lrint(255 * std::clamp(mean[c], 0.0F, 1.0F)));
  return make_augmentation(params.augment, data.augmentation, setup);
}

void override_channels(std::vector<float>& values, const std::vector<double>& wanted, const std::string& key,
                       bool zero_allowed) {
  if (wanted.empty()) return;
  if (wanted.size() != values.size())
    throw Error(Fault::usage, key,
                fmt::format("has {} values, the images have {} channels", wanted.size(), values.size()),
                "give one value per channel, or none for the data set's own");
  for (const double value : wanted)
    if (!std::isfinite(value) || value < 0 || (value == 0 && !zero_allowed))
      throw Error(Fault::usage, key, fmt::format("{} cannot be used to normalise an image", value),
                  "values are on the scale 0..1");
  std::transform(wanted.begin(), wanted.end(), values.begin(), [](double value) { return static_cast<float>(value); });
}

/// Grey images are often stored in colour, and JPEG leaves them a tint.
bool shows_colour(const Image& image) {
  constexpr int tint = 16;              // levels between the channels of a pixel
  constexpr size_t one_pixel_of = 100;  // that many
  if (image.shape.channels != 3) return false;
  const size_t plane = image.bytes.size() / 3;
  size_t coloured = 0;
  for (size_t i = 0; i < plane; ++i) {
    const auto [least, most] = std::minmax({image.bytes[i], image.bytes[plane + i], image.bytes[2 * plane + i]});
    coloured += most - least > tint ? 1 : 0;
  }
  return coloured * one_pixel_of > plane;
}

}  // namespace

std::vector<std::string> data_set_names() { return names_in(data_formats()); }

Origin origin_of(const DataParams& params) { return format_of(params).origin; }

Dataset load_dataset(const DataParams& params, uint64_t seed) {
  Dataset data = read_by_name(params, seed);
  override_channels(data.normalisation.mean, params.mean, "data.mean", true);
  override_channels(data.normalisation.std, params.std, "data.std", false);
  data.augmentation = chosen_augmentation(params, data);
  return data;
}

std::optional<Levels> levels_of(const DataParams& params) {
  if (params.levels.empty()) return std::nullopt;
  if (params.levels.size() != 2 || !(params.levels[0] < params.levels[1]))
    throw Error(Fault::usage, "data.levels", fmt::format("{} are not two levels", fmt::join(params.levels, ",")),
                "two numbers, the value that becomes black and the higher one that becomes white: 0,4095 for 12 bits");
  return Levels{params.levels[0], params.levels[1]};
}

bool resizes_images(const DataParams& params) {
  const Origin origin = origin_of(params);
  return origin == Origin::folder || origin == Origin::lists;
}

LoneImage read_alone(const std::filesystem::path& path, const DataParams& params, ImageShape input) {
  const bool cut = origin_of(params) == Origin::lists;
  const int64_t side = cut ? stored_side(params, input.height) : 0;
  const Image file = read_image(path, side, levels_of(params));
  const ImageShape source{file.shape.channels, file.shape.height * file.reduced, file.shape.width * file.reduced};
  const Image grey_or_colour = with_channels(file, input.channels);
  Image image = cut ? centre_square(grey_or_colour, side) : resize(grey_or_colour, input.height, input.width);
  LoneImage one{Images::own(input, std::move(image.bytes)), source, shows_colour(file)};
  one.image.margin = cut ? (side - input.height) / 2 : 0;
  return one;
}

}  // namespace fedgrab
