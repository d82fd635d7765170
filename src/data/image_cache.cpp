#include "image_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/core/patient_progress.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/data/image.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

// Part of the file's name: raise it when the format or the way from file to bytes changes.
constexpr uint64_t version = 2;
constexpr size_t page = 4096;

enum class Found : uint32_t { nothing, image, bad_file };

struct Header {
  uint64_t key;      // of version, preprocessing and list; 0: a file that was only begun
  uint64_t settled;  // 1: everything below is on the disk; otherwise checksums decide what is
};

/// One per place in the file.
struct Record {
  uint64_t stamp;  // of the source
  uint32_t file;   // which of the list
  Found found;
  uint32_t checksum;
  uint16_t height, width;  // of the source
};

/// FNV-1a.
uint64_t hash(uint64_t start, const void* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) start = (start ^ static_cast<const uint8_t*>(bytes)[i]) * 0x100000001B3ULL;
  return start;
}

uint64_t key_of(std::span<const fs::path> files, const CacheRules& rules) {
  const std::array<uint64_t, 4> recipe{version, static_cast<uint64_t>(rules.side),
                                       static_cast<uint64_t>(rules.channels), files.size()};
  uint64_t key = hash(0xCBF29CE484222325ULL, recipe.data(), sizeof(recipe));
  if (rules.levels) key = hash(key, &*rules.levels, sizeof(Levels));
  for (const auto& file : files) key = hash(key, file.c_str(), file.native().size() + 1);
  return std::max<uint64_t>(key, 1);
}

/// Another one when the file changes; 0 when there is none.
uint64_t stamp_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return 0;
  const std::array<int64_t, 3> facts{status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  return std::max<uint64_t>(hash(version, facts.data(), sizeof(facts)), 1);
}

uint32_t checksum(std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(crc32_z(0, bytes.data(), bytes.size()));
}

/// The mapped file.
class CacheFile {
 public:
  CacheFile(fs::path path, size_t count, size_t image_bytes)
      : path_(std::move(path)),
        count_(count),
        image_bytes_(image_bytes),
        start_((sizeof(Header) + count * sizeof(Record) + page - 1) / page * page),
        size_(start_ + count * image_bytes) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && (errno == EACCES || errno == EROFS)) {  // owned by another user: read it if it is complete
      writable_ = false;
      descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    }
    if (descriptor_ < 0) refuse(writable_ ? errno : EACCES);
  }
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;
  ~CacheFile() {
    if (memory_ != nullptr) ::munmap(memory_, size_);
    ::close(descriptor_);
  }

  /// LOCK_SH to read or LOCK_EX to write, instead of the lock held so far; false, without a lock, if another process
  /// prevents it.
  bool try_lock(int kind) {
    if (::flock(descriptor_, kind | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) refuse(errno);
    return false;
  }

  /// False for a file that is yet to be made.
  bool map() {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) refuse(errno);
    if (static_cast<size_t>(status.st_size) != size_) return false;
    if (memory_ != nullptr) return true;
    memory_ = ::mmap(nullptr, size_, writable_ ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor_, 0);
    if (memory_ == MAP_FAILED) memory_ = nullptr, refuse(errno);
    return true;
  }

  void require_writable() const {
    if (!writable_) refuse(EACCES);
  }

  /// Allocates the full size at once: a mapped file on a full disk would kill the process.
  void make(uint64_t key) {
    if (::ftruncate(descriptor_, 0) != 0) refuse(errno);
    const int code = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(size_));
    if (code != 0) {
      ::unlink(path_.c_str());
      refuse(code);
    }
    if (!map()) refuse(EIO);
    for (size_t i = 0; i < count_; ++i) records()[i].file = static_cast<uint32_t>(i);
    header().key = key;
  }

  void sync() {
    if (::msync(memory_, size_, MS_SYNC) != 0) refuse(errno);
  }

  Header& header() { return *static_cast<Header*>(memory_); }
  std::span<Record> records() { return {reinterpret_cast<Record*>(bytes() + sizeof(Header)), count_}; }
  std::span<uint8_t> image(size_t place) { return {bytes() + start_ + place * image_bytes_, image_bytes_}; }
  std::span<const uint8_t> images(size_t count) { return {bytes() + start_, count * image_bytes_}; }

 private:
  uint8_t* bytes() { return static_cast<uint8_t*>(memory_); }

  [[noreturn]] void refuse(int code) const {
    const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
    throw Error(Fault::other, path_.string(), fmt::format("cannot keep decoded images here: {}", std::strerror(code)),
                full ? fmt::format("{:.2g} GB are needed; choose another folder with data.cache or a smaller "
                                   "data.cache_size",
                                   static_cast<double>(size_) * 1e-9)
                     : "choose another folder with data.cache");
  }

  fs::path path_;
  size_t count_, image_bytes_, start_, size_;
  int descriptor_ = -1;
  bool writable_ = true;
  void* memory_ = nullptr;
};

/// Brings a cache in line with the files it is made of.
class Builder {
 public:
  Builder(CacheFile& cache, uint64_t key, std::span<const fs::path> files, const CacheRules& rules,
          fs::path reasons_file)
      : cache_(cache),
        key_(key),
        files_(files),
        rules_(rules),
        reasons_file_(std::move(reasons_file)),
        stamps_(files.size()) {
    parallel_for(static_cast<int64_t>(files.size()), available_cores(),
                 [&](int64_t i, int) { stamps_[static_cast<size_t>(i)] = stamp_of(files_[static_cast<size_t>(i)]); });
  }

  /// True when there is nothing to do.
  bool finished() { return exists() && cache_.header().settled == 1 && open_places(!rules_.skip_bad).empty(); }

  /// True where every image is what was written.
  bool intact() {
    return finished() && damaged([](Record&) {}) == 0;
  }

  /// Gives back how many files it decoded.
  int64_t build(bool verified) {
    cache_.require_writable();
    if (!exists()) cache_.make(key_);
    if (verified || cache_.header().settled == 0) verify();
    const auto open = open_places(true);
    decode(open);
    return static_cast<int64_t>(open.size());
  }

 private:
  /// True for a file of this list in which each image has one record.
  bool exists() {
    if (!cache_.map() || cache_.header().key != key_) return false;
    std::vector<bool> seen(files_.size());
    for (const Record& record : cache_.records()) {
      if (record.file >= seen.size() || seen[record.file]) return false;
      seen[record.file] = true;
    }
    return true;
  }

  /// Places whose image is still to be made; with `retry` also of files that were bad the last time.
  std::vector<size_t> open_places(bool retry) {
    std::vector<size_t> open;
    const auto records = cache_.records();
    for (size_t place = 0; place < records.size(); ++place) {
      const Record& record = records[place];
      const bool known = record.found == Found::image || (record.found == Found::bad_file && !retry);
      if (!known || record.stamp != stamps_[record.file]) open.push_back(place);
    }
    return open;
  }

  /// Calls `visit` for the images whose bytes are not those that were written, and counts them.
  template <class Visit>
  int64_t damaged(Visit visit) {
    const auto records = cache_.records();
    std::atomic<int64_t> count = 0;
    PatientProgress progress("checking decoded images", static_cast<int64_t>(records.size()));
    parallel_for(static_cast<int64_t>(records.size()), available_cores(), [&](int64_t place, int) {
      throw_if_interrupted();
      Record& record = records[static_cast<size_t>(place)];
      progress.step();
      if (record.found != Found::image || checksum(cache_.image(static_cast<size_t>(place))) == record.checksum) return;
      visit(record);
      ++count;
    });
    return count;
  }

  /// Forgets them.
  void verify() {
    const int64_t count = damaged([](Record& record) { record.found = Found::nothing; });
    if (count > 0) note(fmt::format("{}: {} decoded images were damaged and are made again", rules_.name, count));
  }

  void decode(const std::vector<size_t>& open) {
    cache_.header().settled = 0;
    cache_.sync();
    PatientProgress progress("decoding images", static_cast<int64_t>(open.size()));
    parallel_for(static_cast<int64_t>(open.size()), available_cores(), [&](int64_t i, int) {
      throw_if_interrupted();
      decode_one(open[static_cast<size_t>(i)]);
      progress.step();
    });
    arrange();
    cache_.sync();
    cache_.header().settled = 1;
    cache_.sync();
    if (reasons_.empty())
      fs::remove(reasons_file_);
    else
      write_atomically(reasons_file_, fmt::format("{}\n", fmt::join(reasons_, "\n")));
  }

  void decode_one(size_t place) {
    Record& record = cache_.records()[place];
    const fs::path& file = files_[record.file];
    record.found = Found::nothing;
    record.stamp = stamps_[record.file];
    try {
      if (record.stamp == 0)
        throw Error(Fault::data, file.string(), "is listed, but there is no such file",
                    "`fedgrab data check` lists all that is missing");
      const Image source = read_image(file, rules_.side, rules_.levels);
      const Image image = with_channels(centre_square(source, rules_.side), rules_.channels);
      const auto bytes = cache_.image(place);
      std::copy(image.bytes.begin(), image.bytes.end(), bytes.begin());
      record.checksum = checksum(bytes);
      record.height = static_cast<uint16_t>(std::min<int64_t>(source.shape.height * source.reduced, UINT16_MAX));
      record.width = static_cast<uint16_t>(std::min<int64_t>(source.shape.width * source.reduced, UINT16_MAX));
      record.found = Found::image;
    } catch (const Error& error) {
      leave_out(record, error);
    } catch (const std::bad_alloc&) {
      leave_out(record, Error(Fault::data, file.string(), "takes more memory than there is"));
    }
  }

  void leave_out(Record& record, const Error& error) {
    if (!rules_.skip_bad) throw error;
    record.found = Found::bad_file;
    const std::lock_guard lock(guard_);
    reasons_.insert(error.what());
  }

  /// Images lie one after the other: a bad file leaves its place to the last good one. The order depends only on which
  /// files are bad, not on the order of decoding.
  void arrange() {
    const auto records = cache_.records();
    std::vector<size_t> place_of(records.size());
    for (size_t place = 0; place < records.size(); ++place) place_of[records[place].file] = place;
    const auto good = [&](size_t file) { return records[place_of[file]].found == Found::image; };
    size_t end = records.size();
    for (size_t place = 0; place < end; ++place) {
      size_t file = place;
      if (!good(place)) {
        while (end > place && !good(end - 1)) --end;
        if (end <= place) return;
        file = --end;
      }
      const size_t from = place_of[file];
      if (from == place) continue;
      const auto image = cache_.image(place);
      std::swap_ranges(image.begin(), image.end(), cache_.image(from).begin());
      std::swap(records[place], records[from]);
      std::swap(place_of[records[place].file], place_of[records[from].file]);
    }
  }

  CacheFile& cache_;
  const uint64_t key_;
  std::span<const fs::path> files_;
  const CacheRules& rules_;
  const fs::path reasons_file_;
  std::vector<uint64_t> stamps_;
  std::mutex guard_;
  std::set<std::string> reasons_;
};

SourceSizes sizes_of(std::span<const Record> records) {
  std::vector<std::pair<uint16_t, uint16_t>> sizes;
  for (const Record& record : records)
    if (record.found == Found::image) sizes.emplace_back(record.height, record.width);
  std::sort(sizes.begin(), sizes.end(),
            [](const auto& a, const auto& b) { return int64_t{a.first} * a.second < int64_t{b.first} * b.second; });
  if (sizes.empty()) return {};
  const auto shape = [](const auto& size) { return ImageShape{3, size.first, size.second}; };
  return {shape(sizes.front()), shape(sizes[sizes.size() / 2]), shape(sizes.back())};
}

}  // namespace

CachedImages cache_images(std::span<const fs::path> files, const CacheRules& rules) {
  const ImageShape shape{rules.channels, rules.side, rules.side};
  const uint64_t key = key_of(files, rules);
  make_folder(rules.folder);
  const fs::path path = rules.folder / fmt::format("{}-{:016x}.images", rules.name, key);
  const fs::path reasons = fs::path(path).replace_extension("bad.txt");
  const auto cache = std::make_shared<CacheFile>(path, files.size(), static_cast<size_t>(shape.size()));
  Builder builder(*cache, key, files, rules, reasons);
  int64_t decoded = 0;
  bool verify = rules.verify;
  for (bool told = false;;) {
    if (cache->try_lock(LOCK_SH)) {
      if (verify && builder.intact()) verify = false;  // beside whoever else reads it
      if (!verify && builder.finished()) break;
    }
    if (cache->try_lock(LOCK_EX)) {
      decoded += builder.build(verify);
      verify = false;
      continue;  // to read it beside others, who may have come between
    }
    if (!told)
      note(fmt::format("{}: waiting for another process that uses the cache, to decode images", path.string()));
    told = true;
    throw_if_interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

  CachedImages result{.sources = sizes_of(cache->records()), .decoded = decoded};
  for (const Record& record : cache->records())
    (record.found == Found::image ? result.files : result.bad).push_back(record.file);
  if (!result.bad.empty())
    warn(fmt::format("{}: {} of {} files cannot be read and are left out; {} says why", rules.name, result.bad.size(),
                     files.size(), reasons.string()));
  result.images = {shape, cache->images(result.files.size()), cache};
  return result;
}

}  // namespace fedgrab
