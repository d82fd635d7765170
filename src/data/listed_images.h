/// Data sets that are lists of image files: where their lists are, and what they list.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fedgrab/data/load.h"

namespace fedgrab {

/// The lists of a published set, by the names they are published under, and where it comes from.
struct ListedSet {
  const char *name, *train, *test, *images, *obtain;
};
/// Null for other names.
const ListedSet* find_listed_set(std::string_view name);

struct ListedSplit {
  std::vector<std::filesystem::path> files;
  std::vector<int32_t> labels;
  std::vector<int32_t> clients;  // empty where the list names none
  std::vector<int32_t> groups;   // the same group has the same number in every part
};

struct Listing {
  std::vector<std::string> class_names;  // in order of their numbers where they are numbers, else of the alphabet
  ListedSplit train, validation, test;
};

/// Reads the lists, not the images.
Listing read_listing(const DataParams& params, uint64_t seed);

/// Of the squares that are stored, for a model that sees `size`: 256 for 224, as is usual, and the same share
/// elsewhere.
int64_t stored_side(const DataParams& params, int64_t size);

/// Where decoded images go: data.cache, else fedgrab/ in the user's cache folder.
std::filesystem::path cache_folder(const DataParams& params);

}  // namespace fedgrab
