/// The header of a safetensors file: which tensors it holds and where. Needs no LibTorch, so that it can be fuzzed
/// alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class SafetensorsType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };
template <>
inline constexpr auto enum_names<SafetensorsType> = names("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8",
                                                          "BOOL");

/// Bytes of one element.
uint64_t size_of(SafetensorsType type);

/// One tensor as the header declares it; offsets count from the end of the header.
struct SafetensorsEntry {
  std::string name;
  SafetensorsType type{};
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  static constexpr uint64_t max_bytes = 100'000'000;           // the limit of the reference implementation
  static constexpr const char* metadata_key = "__metadata__";  // cannot name a tensor

  std::vector<SafetensorsEntry> entries;  // by offset, end to end
  std::map<std::string, std::string> metadata;
};

/// From the beginning of a stream of `size` bytes; leaves it at the first tensor. Throws Error(Fault::checkpoint)
/// naming `path` for whatever the format forbids.
SafetensorsHeader read_safetensors_header(std::istream& in, uint64_t size, const std::filesystem::path& path);

/// Throws Error(Fault::checkpoint).
[[noreturn]] void refuse_safetensors(const std::filesystem::path& path, const std::string& why);

}  // namespace fedgrab
