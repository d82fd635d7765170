/// The most memory this process has held.
#pragma once

#include <cstdint>

namespace fedgrab {

int64_t peak_memory_bytes();

}  // namespace fedgrab
