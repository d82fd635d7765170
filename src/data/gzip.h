#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace fedgrab {

/// How many bytes one byte of deflate's output can stand for, at the most.
inline constexpr uint64_t best_deflate_ratio = 1032;

/// Unpacks a .gz file piece by piece, so that the caller and not the file decides how much memory that takes. A file
/// that is not packed is read as it is.
class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& path);

  /// Fills `bytes` as far as the content goes and returns how many that were. Throws Error(Fault::data) when the file
  /// is damaged or cut short.
  size_t read(std::span<uint8_t> bytes);

 private:
  std::filesystem::path path_;
  std::shared_ptr<void> file_;
};

}  // namespace fedgrab
