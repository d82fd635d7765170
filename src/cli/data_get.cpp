#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "commands.h"
#include "fedgrab/core/error.h"
#include "fedgrab/data/download.h"

namespace fedgrab::cli {
namespace {

struct GetFlags {
  std::string what, into, sha256;
};

RemoteSet find_set(const GetFlags& flags) {
  if (flags.what.find("://") != std::string::npos) {
    if (flags.sha256.empty())
      throw Error(Fault::usage, flags.what, "a URL needs --sha256", "ask whoever published the file");
    return {"", {{flags.what, flags.sha256}}};
  }
  std::vector<std::string> names;
  for (const auto& set : remote_sets()) {
    if (set.name == flags.what) return set;
    names.push_back(set.name);
  }
  throw Error(Fault::usage, flags.what, "cannot be downloaded",
              fmt::format("one of {}; `fedgrab data check --data {}` says what to obtain of the others",
                          fmt::join(names, ", "), flags.what));
}

void get(const GetFlags& flags) {
  const RemoteSet set = find_set(flags);
  const std::filesystem::path folder = flags.into.empty() ? "data/" + set.name : flags.into;
  for (const auto& file : set.files) {
    const auto path = download(file, folder);
    if (path.string().ends_with(".tar.gz")) unpack(path, folder);
  }
  const bool cifar = set.name.starts_with("cifar");
  fmt::print("{}: complete{}\n", folder.string(),
             set.name.empty() ? ""
                              : fmt::format(" (next: fedgrab run --data {} --data-path {})", cifar ? set.name : "idx",
                                            folder.string()));
}

}  // namespace

void add_data_get(CLI::App& data) {
  auto* command =
      data.add_subcommand("get", "Download cifar10, cifar100, mnist or fashion-mnist; resumes an interrupted download");
  auto flags = std::make_shared<GetFlags>();
  command->add_option("what", flags->what, "Data set, or the URL of a file")->required()->type_name("NAME");
  command->add_option("--into", flags->into, "Folder (default: data/NAME)")->type_name("DIR");
  command->add_option("--sha256", flags->sha256, "Expected SHA-256 of the file, if NAME is a URL")->type_name("HEX");
  command->callback([flags] { get(*flags); });
}

}  // namespace fedgrab::cli
