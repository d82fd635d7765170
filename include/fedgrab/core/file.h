/// Files as this project writes them: beside, synced and renamed, so that a reader never sees half of one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedgrab/core/error.h"

namespace fedgrab {

/// Throws Error(fault) naming the path when it cannot be read.
std::vector<uint8_t> read_bytes(const std::filesystem::path& path, Fault fault = Fault::data);
std::string read_text(const std::filesystem::path& path, Fault fault = Fault::data);

/// A file being written beside its final place: nothing is visible under `path` until commit().
/// Destroyed without commit(), it leaves nothing behind.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text);
  /// Flushes to the disk and renames into place.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // none for what is no file: a device or a pipe
  int descriptor_ = -1;
};

void write_atomically(const std::filesystem::path& path, std::string_view text);

/// A log: grows in place, whole lines only, each on the disk before append() returns.
class LineLog {
 public:
  /// One writer at a time: a second one, of this process or another, is refused, and the file stays as it is.
  explicit LineLog(std::filesystem::path path);
  LineLog(std::filesystem::path path, int64_t keep_lines) : LineLog(std::move(path)) { keep(keep_lines); }
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;
  ~LineLog();

  /// Keeps the first complete lines and cuts the rest.
  void keep(int64_t lines);
  void append(std::string_view line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// While it lives, this process alone fills the folder: a second one is refused. Ends with the process, however that
/// ends.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_ = -1;
};

/// Creates the folder and its parents; throws Error when that is impossible.
void make_folder(const std::filesystem::path& path);

}  // namespace fedgrab
