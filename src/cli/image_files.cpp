#include "image_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "fedgrab/core/error.h"
#include "fedgrab/data/image.h"

namespace fedgrab::cli {
namespace {

namespace fs = std::filesystem;

class Walk {
 public:
  Walk(ImageFiles& found, fs::path shown_from) : found_(found), shown_from_(std::move(shown_from)) {}

  void add_folder(const fs::path& folder) {
    std::error_code code;
    const fs::path real = fs::canonical(folder, code);
    if (code) return skip(folder, code);
    if (!on_the_way_.insert(real).second) return;
    std::vector<fs::path> entries;
    fs::directory_iterator entry(folder, code);
    for (; !code && entry != fs::directory_iterator(); entry.increment(code)) entries.push_back(entry->path());
    if (code) skip(folder, code);
    std::sort(entries.begin(), entries.end());
    for (const auto& path : entries) add(path);
    on_the_way_.erase(real);
  }

 private:
  void add(const fs::path& path) {
    std::error_code ignored;
    if (path.filename().string().starts_with('.')) return;
    if (fs::is_directory(path, ignored)) return add_folder(path);
    if (!looks_like_image(path) || !fs::is_regular_file(path, ignored)) return;
    found_.files.push_back(
        {path, shown_from_.empty() ? path.string() : path.lexically_relative(shown_from_).string(), false});
  }
  void skip(const fs::path& folder, const std::error_code& code) {
    found_.unreadable.push_back(fmt::format("{}: cannot be listed: {}", folder.string(), code.message()));
  }

  ImageFiles& found_;
  fs::path shown_from_;
  std::set<fs::path> on_the_way_;
};

}  // namespace

ImageFiles find_images(const std::vector<std::string>& arguments) {
  ImageFiles found;
  for (const auto& argument : arguments) {
    if (!fs::is_directory(argument))
      found.files.push_back({argument, argument, true});
    else
      Walk(found, arguments.size() == 1 ? fs::path(argument) : fs::path()).add_folder(argument);
  }
  if (found.files.empty())
    throw Error(Fault::data, arguments.front(), "holds no images", "PNG, JPEG, PPM or PGM files, in folders or not");
  return found;
}

}  // namespace fedgrab::cli
