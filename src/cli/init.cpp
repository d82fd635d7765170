#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab::cli {
namespace {

void init(const std::string& path) {
  if (std::filesystem::exists(path)) throw Error(Fault::usage, path, "exists already", "choose another name");
  const std::string head =
      "# fedgrab configuration. Every line is commented out and shows the default, that of the default\n"
      "# method where it sets one: change what you need.\n"
      "# Run it with: fedgrab run " +
      path + "\n\n";
  write_atomically(path, head + resolve_config(std::nullopt, {}).to_toml(true));
  fmt::print("{} written; run it with: fedgrab run {}\n", path, path);
}

}  // namespace

void add_init(CLI::App& app) {
  auto* command = app.add_subcommand("init", "Write a commented configuration file to start from");
  auto path = std::make_shared<std::string>("fedgrab.toml");
  command->add_option("file", *path, "File to write")->type_name("FILE.toml")->capture_default_str();
  command->callback([path] { init(*path); });
}

}  // namespace fedgrab::cli
