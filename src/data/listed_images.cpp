#include "listed_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "fedgrab/core/error.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/data/group_split.h"
#include "fedgrab/data/image.h"
#include "image_cache.h"
#include "image_list.h"
#include "paths.h"
#include "test_share.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

constexpr std::array listed_sets{
    ListedSet{"imagenet-lt", "ImageNet_LT_train.txt", "ImageNet_LT_test.txt", "train/ and val/ of ILSVRC 2012",
              "the lists from github.com/zhmiao/OpenLongTailRecognition-OLTR, the images (150 GB) after registration "
              "from image-net.org"},
    ListedSet{"places-lt", "Places_LT_train.txt", "Places_LT_test.txt", "data_256/ and val_256/ of Places365",
              "the lists from github.com/zhmiao/OpenLongTailRecognition-OLTR, the images (24 GB, small, standard) from "
              "places2.csail.mit.edu"},
    ListedSet{"inaturalist-2018", "iNaturalist18_train.txt", "iNaturalist18_val.txt", "train_val2018/",
              "the lists from github.com/facebookresearch/classifier-balancing, the images (120 GB) from "
              "github.com/visipedia/inat_comp/tree/master/2018"},
    ListedSet{
        "inaturalist-user", "federated_train_user_120k.csv", "test.csv", "train_val_images/ of iNaturalist 2017",
        "the lists from storage.googleapis.com/gresearch/federated-vision-datasets/inaturalist-user-120k.zip, the "
        "images (186 GB) from github.com/visipedia/inat_comp/tree/master/2017"},
};

struct Lists {
  std::vector<ListedImage> train, test, validation;
};

/// Numbers by value, before words.
bool comes_before(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& text) -> std::optional<int64_t> {
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    return code == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  const auto x = number(a), y = number(b);
  if (x && y && *x != *y) return *x < *y;
  return x.has_value() == y.has_value() ? a < b : x.has_value();
}

/// The different texts of a column in order, and the position of each.
class Numbering {
 public:
  using Column = std::string ListedImage::*;

  Numbering(std::initializer_list<const std::vector<ListedImage>*> lists, Column column) {
    for (const auto* list : lists)
      for (const auto& image : *list) position_.emplace(image.*column, 0);
    for (const auto& entry : position_) names.push_back(entry.first);
    std::sort(names.begin(), names.end(), comes_before);
    for (size_t i = 0; i < names.size(); ++i) position_[names[i]] = static_cast<int32_t>(i);
  }
  std::optional<int32_t> find(const std::string& name) const {
    const auto found = position_.find(name);
    return found == position_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Of every row, whose texts are all among those numbered.
  std::vector<int32_t> of(const std::vector<ListedImage>& list, Column column) const {
    std::vector<int32_t> numbers;
    numbers.reserve(list.size());
    for (const auto& image : list) numbers.push_back(position_.at(image.*column));
    return numbers;
  }
  std::vector<std::string> names;

 private:
  std::unordered_map<std::string, int32_t> position_;
};

/// Of train.csv, train.txt and train.tsv, say, the one that is there.
std::optional<fs::path> find_list(const fs::path& folder, const std::string& name) {
  for (const char* ending : {".csv", ".txt", ".tsv"})
    if (is_file(folder / (name + ending))) return folder / (name + ending);
  return std::nullopt;
}

fs::path list_called(const fs::path& folder, const std::string& name) {
  if (const auto list = find_list(folder, name)) return *list;
  throw Error(Fault::data, (folder / (name + ".csv")).string(), "no such list",
              "data.path is one list, or a folder with train and test lists (.csv, .txt or .tsv)");
}

/// True for those to test on: the same share of every class.
std::vector<bool> tested_by_class(const std::vector<ListedImage>& list, double test_fraction, uint64_t seed) {
  std::map<std::string, std::vector<size_t>> of_class;
  for (size_t i = 0; i < list.size(); ++i) of_class[list[i].label].push_back(i);
  std::vector<bool> tested(list.size());
  size_t label = 0;
  for (const auto& [name, members] : of_class) {
    const auto share = test_share(members.size(), test_fraction, seed, label++);
    for (size_t k = 0; k < members.size(); ++k) tested[members[k]] = share[k];
  }
  return tested;
}

/// One list in two, about the same share of every class.
Lists split_list(std::vector<ListedImage> list, const fs::path& file, double test_fraction, uint64_t seed) {
  std::vector<bool> tested;
  if (list.front().group.empty()) {
    tested = tested_by_class(list, test_fraction, seed);
  } else {
    const auto column = [&](std::string ListedImage::*name) { return Numbering({&list}, name).of(list, name); };
    tested = hold_out_groups(column(&ListedImage::label), column(&ListedImage::group), test_fraction,
                             OfEveryClass::one_at_least, seed);
  }
  Lists lists;
  for (size_t i = 0; i < list.size(); ++i) (tested[i] ? lists.test : lists.train).push_back(std::move(list[i]));
  if (lists.test.empty())
    throw Error(Fault::data, file.string(), "lists no class with two images, one to train and one to test",
                "two images of different groups, where it has such a column; or give a folder with a train and a test "
                "list");
  return lists;
}

Lists read_lists(const DataParams& params, uint64_t seed) {
  const fs::path path = params.path;
  if (const ListedSet* set = find_listed_set(params.name)) {
    for (const char* name : {set->train, set->test})
      if (!is_file(path / name))
        throw Error(Fault::data, (path / name).string(), "no such list",
                    fmt::format("data.path is the folder of {} and {}: {}", set->train, set->test, set->obtain));
    return {read_image_list(path / set->train), read_image_list(path / set->test), {}};
  }
  if (!is_folder(path)) return split_list(read_image_list(path), path, params.test_fraction, seed);
  Lists lists{read_image_list(list_called(path, "train")), read_image_list(list_called(path, "test")), {}};
  for (const char* name : {"val", "validation"})
    if (const auto list = find_list(path, name)) lists.validation = read_image_list(*list);
  return lists;
}

/// Listed names to files. A name without the ending of an image is its identity: the file of that name anywhere below
/// the root. Paths are absolute, since decoded images are remembered by them.
class ImageFinder {
 public:
  explicit ImageFinder(const fs::path& root) : root_((fs::current_path() / root).lexically_normal()) {}

  fs::path find(const std::string& name) {
    fs::path file = (root_ / name).lexically_normal();
    if (looks_like_image(name) || is_file(file)) return file;
    if (!scanned_) scan();
    const auto found = by_stem_.find(fs::path(name).filename().string());
    if (found == by_stem_.end()) return file;
    const fs::path folder = file.parent_path();
    const auto& files = found->second;
    const auto there =
        std::find_if(files.begin(), files.end(), [&](const auto& f) { return f.parent_path() == folder; });
    if (there != files.end()) return *there;
    if (files.size() > 1)
      throw Error(Fault::data, name, fmt::format("is the name of {} and of {}", files[0].string(), files[1].string()),
                  "list images by their paths");
    return files.front();
  }

 private:
  void scan() {
    scanned_ = true;
    std::error_code ignored;
    fs::recursive_directory_iterator entry(root_, fs::directory_options::skip_permission_denied, ignored);
    for (; entry != fs::recursive_directory_iterator(); entry.increment(ignored))
      if (looks_like_image(entry->path())) by_stem_[entry->path().stem().string()].push_back(entry->path());
  }

  fs::path root_;
  bool scanned_ = false;
  std::unordered_map<std::string, std::vector<fs::path>> by_stem_;
};

ListedSplit resolve(const std::vector<ListedImage>& list, const Numbering& classes, ImageFinder& finder) {
  ListedSplit split;
  for (const auto& image : list) {
    const auto label = classes.find(image.label);
    if (!label)
      throw Error(Fault::data, image.path, fmt::format("its class {} has no training images", image.label),
                  "add it to the training list or remove it from the others");
    split.files.push_back(finder.find(image.path));
    split.labels.push_back(*label);
  }
  return split;
}

/// Refuses lists of which two name the same group: what is tested would have been learnt.
void number_groups(const Lists& lists, Listing& listing, const fs::path& path) {
  const auto has_groups = [](const auto& list) { return !list.empty() && !list.front().group.empty(); };
  if (!has_groups(lists.train)) return;
  const Numbering groups({&lists.train, &lists.validation, &lists.test}, &ListedImage::group);
  std::vector<const char*> part_of(groups.names.size());
  const auto number = [&](const std::vector<ListedImage>& list, ListedSplit& split, const char* part) {
    if (list.empty()) return;
    if (!has_groups(list))
      throw Error(Fault::data, path.string(),
                  fmt::format("the training list has a column of groups, the {} list none", part),
                  "give every list the column, so that no group is on both sides");
    split.groups = groups.of(list, &ListedImage::group);
    for (const int32_t group : split.groups) {
      const char*& other = part_of[static_cast<size_t>(group)];
      if (other != nullptr && other != part)
        throw Error(Fault::data, path.string(),
                    fmt::format("group {} is in the {} list and in the {} list",
                                groups.names[static_cast<size_t>(group)], other, part),
                    "move all its images to one of them");
      other = part;
    }
  };
  number(lists.train, listing.train, "training");
  number(lists.validation, listing.validation, "validation");
  number(lists.test, listing.test, "test");
}

/// An image that is in both parts is tested on after it was learnt.
void warn_of_repeats(const Listing& listing) {
  std::unordered_set<std::string> seen;
  int64_t repeated = 0, learnt = 0;
  for (const auto& file : listing.train.files) repeated += seen.insert(file.string()).second ? 0 : 1;
  for (const auto& file : listing.test.files) learnt += seen.contains(file.string()) ? 1 : 0;
  if (repeated > 0) warn(fmt::format("{} training rows name a file that a row before them names as well", repeated));
  if (learnt > 0) warn(fmt::format("{} test images are training images too, so the accuracy will be too high", learnt));
}

/// The part of a column that belongs to the images kept.
std::vector<int32_t> kept(const std::vector<int32_t>& column, const std::vector<int64_t>& files) {
  std::vector<int32_t> values;
  if (column.empty()) return values;
  values.reserve(files.size());
  for (const int64_t file : files) values.push_back(column[static_cast<size_t>(file)]);
  return values;
}

}  // namespace

const ListedSet* find_listed_set(std::string_view name) {
  const auto found =
      std::find_if(listed_sets.begin(), listed_sets.end(), [&](const ListedSet& set) { return name == set.name; });
  return found == listed_sets.end() ? nullptr : &*found;
}

int64_t stored_side(const DataParams& params, int64_t size) {
  const int64_t side = params.cache_size > 0 ? params.cache_size : size + size / 14 * 2;
  if (side < size || (side - size) % 2 != 0)
    throw Error(Fault::usage, "data.cache_size", fmt::format("{} does not fit data.size {}", side, size),
                "it must be larger by an even number, or equal");
  return side;
}

Listing read_listing(const DataParams& params, uint64_t seed) {
  if (params.path.empty())
    throw Error(Fault::usage, "data.path", "is not set", "name the list, or the folder of the lists");
  const Lists lists = read_lists(params, seed);
  const fs::path path = params.path;
  ImageFinder finder(!params.images.empty() ? fs::path(params.images) : is_folder(path) ? path : path.parent_path());
  const Numbering classes({&lists.train}, &ListedImage::label);
  Listing listing{classes.names, resolve(lists.train, classes, finder), resolve(lists.validation, classes, finder),
                  resolve(lists.test, classes, finder)};
  if (!lists.train.front().client.empty())
    listing.train.clients = Numbering({&lists.train}, &ListedImage::client).of(lists.train, &ListedImage::client);
  number_groups(lists, listing, path);
  warn_of_repeats(listing);
  return listing;
}

fs::path cache_folder(const DataParams& params) {
  if (!params.cache.empty()) return params.cache;
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder != '\0')
    return fs::path(folder) / "fedgrab";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "fedgrab";
  throw Error(Fault::usage, "data.cache", "is not set, and neither HOME nor XDG_CACHE_HOME is",
              "name a folder for the decoded images");
}

std::optional<ListedFiles> check_listed_files(const DataParams& params, uint64_t seed) {
  if (origin_of(params) != Origin::lists) return std::nullopt;
  const ListedSet* set = find_listed_set(params.name);
  const Listing listing = read_listing(params, seed);
  ListedFiles found;
  found.train = static_cast<int64_t>(listing.train.files.size());
  found.test = static_cast<int64_t>(listing.test.files.size());
  if (set != nullptr) found.images = set->images, found.obtain = set->obtain;
  for (const auto* split : {&listing.train, &listing.validation, &listing.test})
    for (const auto& file : split->files)
      if (!is_file(file)) found.missing.push_back(file.string());
  return found;
}

Dataset read_listed_images(const DataParams& params, uint64_t seed) {
  const int64_t size = params.size > 0 ? params.size : 224;
  const int64_t side = stored_side(params, size);
  Listing listing = read_listing(params, seed);

  Dataset data;
  data.name = params.name;
  data.class_names = std::move(listing.class_names);
  data.augmentation = {resized_crop(), flip()};
  CacheRules rules{cache_folder(params),         "",           side, params.channels == 1 ? 1 : 3, levels_of(params),
                   params.bad == BadImage::skip, params.verify};
  data.normalisation = rules.channels == 1 ? Normalisation{{0.5F}, {0.25F}} : imagenet_normalisation();
  const auto fill = [&](Split& split, const ListedSplit& listed, const char* part) {
    rules.name = fmt::format("{}-{}", params.name, part);
    CachedImages cached = cache_images(listed.files, rules);
    if (cached.files.empty()) throw Error(Fault::data, params.path, fmt::format("no {} image can be read", part));
    cached.images.shape = {rules.channels, size, size};
    cached.images.margin = (side - size) / 2;
    split = {std::move(cached.images), kept(listed.labels, cached.files)};
    for (const int64_t file : cached.bad) data.skipped.push_back(listed.files[static_cast<size_t>(file)].string());
    return cached;
  };
  const CachedImages train = fill(data.train, listing.train, "train");
  fill(data.test, listing.test, "test");
  if (!listing.validation.files.empty()) fill(data.validation, listing.validation, "validation");
  data.clients = kept(listing.train.clients, train.files);
  data.groups = kept(listing.train.groups, train.files);
  data.sources = train.sources;
  return data;
}

}  // namespace fedgrab
