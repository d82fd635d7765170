// The header of a model file.
#include <sstream>

#include "fuzz.h"
#include "model/safetensors_header.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::value_or_error([&] {
    std::istringstream in(std::string(fuzz::text_of(data, size)));
    const auto header = read_safetensors_header(in, size, "input.safetensors");
    uint64_t at = 0;  // what a reader relies on: the tensors lie end to end, and each has the bytes of its shape
    for (const auto& entry : header.entries) {
      uint64_t bytes = size_of(entry.type);
      for (const int64_t extent : entry.shape) bytes *= static_cast<uint64_t>(extent);
      if (entry.begin != at || entry.end - entry.begin != bytes) std::abort();
      at = entry.end;
    }
    if (static_cast<uint64_t>(in.tellg()) + at != size) std::abort();
  });
  return 0;
}
