/// The files inside a ZIP archive, as .npz is one: stored or deflated, of any size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace fedgrab {

class ZipArchive {
 public:
  /// Reads the directory. Throws Error(Fault::data) when the file is no ZIP archive.
  explicit ZipArchive(const std::filesystem::path& path);

  std::vector<std::string> names() const;
  bool has(std::string_view name) const;
  /// The whole content. Throws Error(Fault::data) naming archive and file when it is damaged.
  std::vector<uint8_t> read(std::string_view name);

 private:
  struct Entry {
    std::string name;
    uint16_t flags, method;
    uint32_t checksum;
    uint64_t packed, size, header;  // bytes; where the entry begins
  };

  std::vector<uint8_t> bytes(uint64_t at, uint64_t count);
  void read_directory(uint64_t at, uint64_t size, uint64_t count);
  const Entry* find(std::string_view name) const;
  uint64_t content_of(const Entry& entry);
  void inflate(const Entry& entry, uint64_t at, std::vector<uint8_t>& content);
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path path_;
  std::ifstream file_;
  uint64_t size_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace fedgrab
