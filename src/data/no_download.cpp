// In place of download.cpp where libcurl or OpenSSL was not there at build time.
#include "fedgrab/core/error.h"
#include "fedgrab/data/download.h"

namespace fedgrab {

std::filesystem::path download(const RemoteFile& file, const std::filesystem::path& folder) {
  throw Error(Fault::other, file.url, "this fedgrab was built without libcurl",
              "fetch it into " + folder.string() + " by other means, or build with libcurl and OpenSSL");
}

}  // namespace fedgrab
