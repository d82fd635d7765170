#include "fedgrab/core/peak_memory.h"

#include <sys/resource.h>

namespace fedgrab {

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace fedgrab
