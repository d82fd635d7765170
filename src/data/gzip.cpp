#include "gzip.h"

#include <zlib.h>

#include <memory>

#include "fedgrab/core/error.h"

namespace fedgrab {

std::vector<uint8_t> read_gzip(const std::filesystem::path& path) {
  constexpr unsigned chunk = 1U << 20;
  const auto close = [](gzFile file) { gzclose_r(file); };
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzopen(path.c_str(), "rb"), close);
  if (!file) throw Error(Fault::data, path.string(), "cannot read");
  std::vector<uint8_t> bytes;
  for (;;) {
    const size_t before = bytes.size();
    bytes.resize(before + chunk);
    const int got = gzread(file.get(), bytes.data() + before, chunk);
    // A stream that ends early is no error to gzread; only gzerror tells.
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
      throw Error(Fault::data, path.string(), std::string("cannot unpack: ") + message, "fetch the file again");
    bytes.resize(before + static_cast<size_t>(got));
    if (got < static_cast<int>(chunk)) return bytes;
  }
}

}  // namespace fedgrab
