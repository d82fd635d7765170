/// The safetensors format: eight bytes of header length, a JSON header, then the raw tensors end to end. Files are
/// exchanged with Python's `safetensors` both ways.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "fedgrab/model/tensor_map.h"

namespace fedgrab {

struct TensorFile {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
};

/// Writes atomically, one tensor at a time. Tensors may live on any device and need not be contiguous.
void save_safetensors(const std::filesystem::path& path, const TensorFile& file);

/// Adds a checksum of the tensors to the metadata (CRC-32 as zlib computes it), which load_safetensors() checks.
void add_checksum(TensorFile& file);

/// CPU tensors. The file is not trusted: a violation of the format throws Error(Fault::checkpoint) before memory is
/// allocated.
TensorFile load_safetensors(const std::filesystem::path& path);

}  // namespace fedgrab
