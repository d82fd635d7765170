// Loaded into a program by LD_PRELOAD: ends it at the n-th system call on files below a folder. The call is not made;
// of a write, the first half is. A file that Python and all processes of the program map holds the counter:
//   FEDGRAB_KILL_STATE=FILE     what Shared has
//   FEDGRAB_KILL_FOLDER=FOLDER  an absolute path
// When one process ends, the others end at their next call: as if the machine had stopped.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

struct Shared {
  std::atomic<int64_t> calls;    // so far
  std::atomic<int64_t> kill_at;  // 0: count only
  std::atomic<int64_t> stopped;  // 1 once a process was ended
};

Shared* shared() {
  static Shared* const state = []() -> Shared* {
    const char* name = std::getenv("FEDGRAB_KILL_STATE");
    const int file = name == nullptr ? -1 : static_cast<int>(syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC));
    if (file < 0) return nullptr;
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
  }();
  return state;
}

bool is_below(std::string_view path) {
  static const char* const folder = std::getenv("FEDGRAB_KILL_FOLDER");
  return folder != nullptr && path.starts_with(folder);
}

bool is_meant(int folder, const char* path) {
  if (path == nullptr) return false;
  if (*path == '/') return is_below(path);
  char base[PATH_MAX] = "";
  if (folder == AT_FDCWD) return getcwd(base, sizeof(base)) != nullptr && is_below(std::string(base) + "/" + path);
  const std::string link = "/proc/self/fd/" + std::to_string(folder);
  return readlink(link.c_str(), base, sizeof(base) - 1) > 0 && is_below(base);
}

bool is_meant(int descriptor) {
  char path[PATH_MAX] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return readlink(link.c_str(), path, sizeof(path) - 1) > 0 && is_below(path);
}

/// True where this call is the one.
bool is_due() {
  Shared* state = shared();
  if (state == nullptr) return false;
  if (state->stopped != 0) raise(SIGKILL);
  return ++state->calls == state->kill_at;
}

void stop() {
  shared()->stopped = 1;
  raise(SIGKILL);
}

void count(bool meant) {
  const int kept = errno;
  if (meant && is_due()) stop();
  errno = kept;
}

/// Half of it where this call is the one.
template <class Original, class Data, class Size>
ssize_t counted_write(Original* original, int file, Data data, Size size) {
  if (is_meant(file) && is_due()) {
    original(file, data, size / 2);
    stop();
  }
  return original(file, data, size);
}

template <class Original>
int counted_open(Original* original, const char* path, int flags, va_list rest) {
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  count(is_meant(AT_FDCWD, path));
  return original(path, flags, mode);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Each as the C library declares it, and the same as if it were not here.
#define FORWARD(name) static const auto original = next<decltype(name)>(#name)

extern "C" {

ssize_t write(int file, const void* data, size_t size) {
  FORWARD(write);
  return counted_write(original, file, data, size);
}

ssize_t writev(int file, const iovec* parts, int number) {
  FORWARD(writev);
  return counted_write(original, file, parts, number);
}

int open(const char* path, int flags, ...) {
  FORWARD(open);
  va_list rest;
  va_start(rest, flags);
  const int file = counted_open(original, path, flags, rest);
  va_end(rest);
  return file;
}

int open64(const char* path, int flags, ...) {
  FORWARD(open64);
  va_list rest;
  va_start(rest, flags);
  const int file = counted_open(original, path, flags, rest);
  va_end(rest);
  return file;
}

FILE* fopen(const char* path, const char* mode) {
  FORWARD(fopen);
  count(is_meant(AT_FDCWD, path));
  return original(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  FORWARD(fopen64);
  count(is_meant(AT_FDCWD, path));
  return original(path, mode);
}

int fsync(int file) {
  FORWARD(fsync);
  count(is_meant(file));
  return original(file);
}

int fdatasync(int file) {
  FORWARD(fdatasync);
  count(is_meant(file));
  return original(file);
}

int msync(void* memory, size_t size, int flags) {
  FORWARD(msync);
  count(true);  // nothing else maps files to write into
  return original(memory, size, flags);
}

int ftruncate(int file, off_t size) noexcept {
  FORWARD(ftruncate);
  count(is_meant(file));
  return original(file, size);
}

int posix_fallocate(int file, off_t start, off_t size) {
  FORWARD(posix_fallocate);
  count(is_meant(file));
  return original(file, start, size);
}

int rename(const char* from, const char* to) noexcept {
  FORWARD(rename);
  count(is_meant(AT_FDCWD, to));
  return original(from, to);
}

int link(const char* from, const char* to) noexcept {
  FORWARD(link);
  count(is_meant(AT_FDCWD, to));
  return original(from, to);
}

int unlink(const char* path) noexcept {
  FORWARD(unlink);
  count(is_meant(AT_FDCWD, path));
  return original(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  FORWARD(unlinkat);
  count(is_meant(folder, path));
  return original(folder, path, flags);
}

int remove(const char* path) noexcept {
  FORWARD(remove);
  count(is_meant(AT_FDCWD, path));
  return original(path);
}

int rmdir(const char* path) noexcept {
  FORWARD(rmdir);
  count(is_meant(AT_FDCWD, path));
  return original(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  FORWARD(mkdir);
  count(is_meant(AT_FDCWD, path));
  return original(path, mode);
}

}  // extern "C"
