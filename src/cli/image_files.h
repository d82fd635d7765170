/// The images that a command line names: files, and all below folders.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fedgrab::cli {

struct ImageFile {
  std::filesystem::path path;
  std::string shown;   // relative to the folder, where the command line is one folder
  bool named = false;  // on the command line itself
};

struct ImageFiles {
  std::vector<ImageFile> files;
  std::vector<std::string> unreadable;  // folders, with the reason
};

/// Folders are walked in the order of names, hidden entries left out; a link back to a folder on the way is not
/// followed. Throws Error(Fault::data) where there is no such file or no image at all.
ImageFiles find_images(const std::vector<std::string>& arguments);

}  // namespace fedgrab::cli
