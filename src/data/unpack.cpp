// Tar as POSIX has it: blocks of 512 bytes, a header and then the content of each file.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/data/download.h"
#include "gzip.h"

namespace fedgrab {

void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder) {
  constexpr size_t block = 512;
  const auto bytes = read_gzip(archive);
  const auto text = [&](size_t at, size_t most) {
    const auto* first = reinterpret_cast<const char*>(bytes.data()) + at;
    return std::string(first, std::find(first, first + most, '\0'));
  };
  for (size_t at = 0; at + block <= bytes.size() && bytes[at] != 0;) {
    const std::filesystem::path name = text(at, 100);
    const size_t size = std::strtoull(text(at + 124, 12).c_str(), nullptr, 8);
    const char kind = static_cast<char>(bytes[at + 156]);
    at += block;
    if (size > bytes.size() - at) throw Error(Fault::data, archive.string(), "is cut short", "download it again");
    const bool inside = name.is_relative() && std::find(name.begin(), name.end(), "..") == name.end();
    if (!inside) throw Error(Fault::data, archive.string(), fmt::format("holds {}, which is outside", name.string()));
    if (kind == '0' || kind == '\0') {
      make_folder((folder / name).parent_path());
      AtomicFile file(folder / name);
      file.write(std::span(bytes).subspan(at, size));
      file.commit();
    }
    at += (size + block - 1) / block * block;
  }
}

}  // namespace fedgrab
