#include "fedgrab/core/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(Fault fault, const fs::path& path, const char* action) {
  const int code = errno;
  const char* hint = code == ENOSPC   ? "free some space and try again"
                     : code == EACCES ? "check the permissions of the folder"
                                      : "";
  throw Error(fault, path.string(), std::string(action) + ": " + std::strerror(code), hint);
}

void write_all(int descriptor, const char* data, size_t size, const fs::path& path) {
  while (size > 0) {
    const ssize_t written = ::write(descriptor, data, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(Fault::other, path, "cannot write");
    }
    data += written;
    size -= static_cast<size_t>(written);
  }
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;  // the rename itself is done; a folder that cannot be opened cannot be synced
  ::fsync(descriptor);
  ::close(descriptor);
}

template <class Bytes>
Bytes read_whole(const fs::path& path, Fault fault) {
  std::error_code code;
  if (fs::is_directory(path, code)) throw Error(fault, path.string(), "is a folder, not a file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(fault, path, "cannot read");
  Bytes bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) fail(fault, path, "cannot read");
  return bytes;
}

/// On file systems without locks, no process is refused.
void lock_or_close(int descriptor, const fs::path& path) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor);
  throw Error(Fault::usage, path.string(), "another process is writing it", "wait for it, or choose another --out");
}

}  // namespace

std::vector<uint8_t> read_bytes(const fs::path& path, Fault fault) {
  std::error_code code;
  const auto size = fs::file_size(path, code);
  if (code) return read_whole<std::vector<uint8_t>>(path, fault);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(fault, path, "cannot read");
  std::vector<uint8_t> bytes(size);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (static_cast<uintmax_t>(in.gcount()) != size) fail(fault, path, "cannot read");
  return bytes;
}

std::string read_text(const fs::path& path, Fault fault) { return read_whole<std::string>(path, fault); }

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  std::error_code code;
  if (fs::is_symlink(path_, code)) path_ = fs::weakly_canonical(path_);  // the link stays, its file is replaced
  if (fs::is_directory(path_, code)) throw Error(Fault::usage, path_.string(), "is a folder, not a file");
  // A pipe or a device is written to, never replaced.
  const bool replace = !fs::exists(path_, code) || fs::is_regular_file(path_, code);
  if (replace) temporary_ = path_.string() + ".partial";
  descriptor_ = replace ? ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)
                        : ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail(Fault::other, path_, "cannot write");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  write_all(descriptor_, reinterpret_cast<const char*>(bytes.data()), bytes.size(), path_);
}

void AtomicFile::write(std::string_view text) { write_all(descriptor_, text.data(), text.size(), path_); }

void AtomicFile::commit() {
  if (temporary_.empty()) return;
  if (::fsync(descriptor_) != 0) fail(Fault::other, path_, "cannot write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(Fault::other, path_, "cannot write");
  ::close(descriptor_);
  descriptor_ = -1;
  sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

void write_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

FolderLock::FolderLock(const fs::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(Fault::other, folder, "cannot read");
  lock_or_close(descriptor_, folder);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

LineLog::LineLog(fs::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(Fault::other, path_, "cannot write");
  lock_or_close(descriptor_, path_);
  ::lseek(descriptor_, 0, SEEK_END);
}

void LineLog::keep(int64_t lines) {
  const std::string text = read_text(path_, Fault::other);
  size_t end = 0;
  for (int64_t line = 0; line < lines; ++line) {
    const size_t next = text.find('\n', end);
    if (next == std::string::npos) break;
    end = next + 1;
  }
  if (::ftruncate(descriptor_, static_cast<off_t>(end)) != 0 || ::lseek(descriptor_, 0, SEEK_END) < 0)
    fail(Fault::other, path_, "cannot write");
}

LineLog::~LineLog() { ::close(descriptor_); }

void LineLog::append(std::string_view line) {
  const off_t before = ::lseek(descriptor_, 0, SEEK_CUR);
  std::string whole(line);
  whole += '\n';
  try {
    write_all(descriptor_, whole.data(), whole.size(), path_);
  } catch (const Error&) {
    // A full disk must not leave half a line, nor a hole before the next one; if even the cut fails, the write error
    // is what matters.
    if (::ftruncate(descriptor_, before) == 0) ::lseek(descriptor_, before, SEEK_SET);
    throw;
  }
  if (::fdatasync(descriptor_) != 0) fail(Fault::other, path_, "cannot write");
}

void make_folder(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code || !fs::is_directory(path))
    throw Error(Fault::other, path.string(), "cannot create the folder: " + code.message(), "choose another --out");
}

}  // namespace fedgrab
