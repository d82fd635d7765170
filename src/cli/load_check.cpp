// Runs before the constructors of the libraries: under a low `ulimit -v`, OpenBLAS tries there without end to get
// memory. LibTorch and the C++ library are not ready yet, so this uses system calls alone.
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

constexpr uint64_t buffer = uint64_t{136} << 20U;  // one of OpenBLAS, and the stack of its thread
constexpr uint64_t slack = uint64_t{192} << 20U;

uint64_t mapped() {
  char text[32] = "";
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const bool read = ::read(file, text, sizeof(text) - 1) > 0;
  ::close(file);
  return read ? std::strtoull(text, nullptr, 10) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

/// As OpenBLAS counts them.
uint64_t threads(char** environment) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  uint64_t count = ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
  for (; *environment != nullptr; ++environment)
    for (const std::string_view name : {"OPENBLAS_NUM_THREADS=", "OMP_NUM_THREADS="})
      if (std::string_view(*environment).starts_with(name)) {
        const uint64_t wanted = std::strtoull(*environment + name.size(), nullptr, 10);
        if (wanted > 0) count = std::min(count, wanted);
      }
  return count;
}

void check_address_space(int /*count*/, char** /*words*/, char** environment) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (::dlsym(RTLD_DEFAULT, "blas_memory_alloc") == nullptr) return;  // another library
  if (mapped() + threads(environment) * buffer + slack <= limit.rlim_cur) return;
  static constexpr std::string_view message =
      "fedgrab: error: memory: the limit on the address space (ulimit -v) is too low (raise it, or set "
      "OPENBLAS_NUM_THREADS=1)\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(1);
}

}  // namespace

__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(int, char**,
                                                                                       char**) = check_address_space;
