#include "gzip.h"

#include <zlib.h>

#include <algorithm>
#include <string>

#include "fedgrab/core/error.h"

namespace fedgrab {

GzipReader::GzipReader(const std::filesystem::path& path) : path_(path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw Error(Fault::data, path.string(), "cannot read");
  file_ = {file, [](gzFile open) { gzclose_r(open); }};
}

size_t GzipReader::read(std::span<uint8_t> bytes) {
  constexpr size_t most_at_once = size_t{1} << 20;
  const auto file = static_cast<gzFile>(file_.get());
  size_t filled = 0;
  while (filled < bytes.size()) {
    const auto asked = static_cast<unsigned>(std::min(bytes.size() - filled, most_at_once));
    const int got = gzread(file, bytes.data() + filled, asked);
    // A stream that ends early is no error to gzread; only gzerror tells.
    int code = Z_OK;
    const char* message = gzerror(file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
      throw Error(Fault::data, path_.string(), std::string("cannot unpack: ") + message, "fetch the file again");
    filled += static_cast<size_t>(got);
    if (got < static_cast<int>(asked)) break;
  }
  return filled;
}

}  // namespace fedgrab
