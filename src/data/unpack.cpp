// Tar as POSIX has it: blocks of 512 bytes, a header and then the content of each file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/data/download.h"
#include "gzip.h"

namespace fedgrab {
namespace {

constexpr size_t block = 512;

class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& archive) : archive_(archive), packed_(archive) {}

  /// Goes to the header of the next file; false at the end.
  bool next() { return packed_.read(header_) == block && header_[0] != 0; }

  std::filesystem::path name() const { return text(0, 100); }
  bool is_file() const { return header_[156] == '0' || header_[156] == '\0'; }

  /// The content of the file, piece by piece, to `use`.
  template <typename Use>
  void read(const Use& use) {
    const uint64_t size = std::strtoull(text(124, 12).c_str(), nullptr, 8);
    for (uint64_t left = size; left > 0;) {
      const auto piece = std::span(buffer_).first(std::min<uint64_t>(left, buffer_.size()));
      if (packed_.read(piece) < piece.size())
        throw Error(Fault::data, archive_.string(), "is cut short", "download it again");
      use(piece);
      left -= piece.size();
    }
    packed_.read(std::span(buffer_).first((block - size % block) % block));
  }

 private:
  std::string text(size_t at, size_t most) const {
    const auto* first = reinterpret_cast<const char*>(header_.data()) + at;
    return {first, std::find(first, first + most, '\0')};
  }

  std::filesystem::path archive_;
  GzipReader packed_;
  std::array<uint8_t, block> header_{};
  std::vector<uint8_t> buffer_ = std::vector<uint8_t>(size_t{1} << 16);
};

}  // namespace

void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder) {
  TarReader tar(archive);
  while (tar.next()) {
    const auto name = tar.name();
    const bool inside = name.is_relative() && std::find(name.begin(), name.end(), "..") == name.end();
    if (!inside) throw Error(Fault::data, archive.string(), fmt::format("holds {}, which is outside", name.string()));
    if (!tar.is_file()) {
      tar.read([](std::span<const uint8_t>) {});
      continue;
    }
    make_folder((folder / name).parent_path());
    AtomicFile file(folder / name);
    tar.read([&](std::span<const uint8_t> piece) { file.write(piece); });
    file.commit();
  }
}

}  // namespace fedgrab
