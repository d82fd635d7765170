/// Image files decoded once, resized and kept as bytes in one memory-mapped file, which the next run opens as it is.
///
/// Each image has a record: the size and time of its source, a checksum, and whether it is there. So a crash leaves
/// what was done, a changed source or damaged bytes cost one decoding, and images that cannot be read are known. A
/// process that writes holds the file alone; any number read it.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fedgrab/data/dataset.h"
#include "fedgrab/data/image.h"

namespace fedgrab {

struct CacheRules {
  std::filesystem::path folder;
  std::string name;  // the file is called after it
  int64_t side = 256, channels = 3;
  std::optional<Levels> levels{};
  bool skip_bad = false;  // instead of stopping at the first
  bool verify = false;    // compare every checksum, not only after a crash
};

struct CachedImages {
  Images images;
  /// Which of the files each image is. Their order, unless bad ones were left out: then the last ones fill the gaps.
  std::vector<int64_t> files;
  std::vector<int64_t> bad;
  SourceSizes sources;
  int64_t decoded = 0;  // of the files, this time
};

/// Throws Error(Fault::data) naming a file that cannot be read, unless those are skipped, and Error(Fault::other) where
/// the disk has no space for the cache. Reasons for what was skipped go to a text file beside the cache.
CachedImages cache_images(std::span<const std::filesystem::path> files, const CacheRules& rules);

}  // namespace fedgrab
