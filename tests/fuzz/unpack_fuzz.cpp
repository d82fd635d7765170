// The archive of a downloaded data set. Nothing is written outside the folder.
#include <zlib.h>

#include "fedgrab/data/download.h"
#include "fuzz.h"

using namespace fedgrab;

namespace {

/// The input is the archive as it is after unpacking: mutations of packed bytes would seldom get so far.
void pack(const std::filesystem::path& path, std::string_view bytes) {
  gzFile file = gzopen(path.c_str(), "wb1");
  if (file == nullptr) std::abort();
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fs = std::filesystem;
  const auto& root = fuzz::scratch().path();
  const auto archive = root / "archive.tar.gz", folder = root / "unpacked";
  pack(archive, fuzz::text_of(data, size));
  fs::create_directory(folder);
  fuzz::value_or_error([&] { unpack(archive, folder); });
  fs::remove_all(folder);
  size_t entries = 0;
  for (auto entry = fs::directory_iterator(root); entry != fs::directory_iterator(); ++entry) ++entries;
  if (entries != 1) std::abort();
  return 0;
}
