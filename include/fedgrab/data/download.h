/// Published data sets over HTTP: what was broken off goes on where it stopped, and every byte is checked.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fedgrab {

struct RemoteFile {
  std::string url, sha256;
};

/// The files of a data set, or one file by its URL.
struct RemoteSet {
  std::string name;
  std::vector<RemoteFile> files;
};
const std::vector<RemoteSet>& remote_sets();

/// Into `folder`, under the name it has in the URL. What is there already with that checksum is kept; `NAME.partial` of
/// an earlier try is continued. Throws Error(Fault::data) where the server or the checksum is to blame.
std::filesystem::path download(const RemoteFile& file, const std::filesystem::path& folder);

/// The plain files of a .tar.gz, below `folder`.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace fedgrab
