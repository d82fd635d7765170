#include "fedgrab/core/address_space.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

constexpr size_t enough = size_t{256} << 20U;  // a buffer of OpenBLAS has up to 128 MiB
constexpr int most_buffers = 32;               // OpenBLAS can allocate more in its smallest build

bool is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

bool has_room() {
  void* room = ::mmap(nullptr, enough, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, enough);
  return true;
}

}  // namespace

void reserve_blas_memory(int threads) {
  if (!is_limited()) return;
  auto* take = reinterpret_cast<void* (*)(int)>(::dlsym(RTLD_DEFAULT, "blas_memory_alloc"));
  auto* give_back = reinterpret_cast<void (*)(void*)>(::dlsym(RTLD_DEFAULT, "blas_memory_free"));
  if (take == nullptr || give_back == nullptr) return;  // another library
  std::vector<void*> buffers;
  bool fits = true;
  for (int i = 0; fits && i < std::min(threads, most_buffers); ++i) {
    fits = has_room();
    if (fits) buffers.push_back(take(0));
  }
  for (void* buffer : buffers) give_back(buffer);  // it keeps them for the next caller
  if (!fits)
    throw Error(Fault::other, "memory",
                fmt::format("the limit on the address space (ulimit -v) is too low for {} threads", threads),
                "raise the limit, or lower engine.workers");
}

}  // namespace fedgrab
