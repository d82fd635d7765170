#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab::cli {
namespace {

/// Where the defaults, which suit the built-in set and benchmarks, are not what own images need.
struct Suggestion {
  const char* group;
  const char* name;
  const char* value;
  const char* why;
};
constexpr Suggestion suggestions[] = {
    {"data", "validation", "0.2", "the post-hoc classifier and the best round need images that are not trained on"},
    {"train", "rounds", "100", "the learning rate falls to zero over them"},
};

/// In place of the commented default of its group.
void insert(std::string& text, const Suggestion& suggestion) {
  const size_t group = text.find(fmt::format("[{}]\n", suggestion.group));
  const size_t line = text.find(fmt::format("\n# {} = ", suggestion.name), group);
  if (line == std::string::npos) throw std::logic_error(fmt::format("no parameter {}", suggestion.name));
  const size_t end = text.find('\n', line + 1);
  const std::string set = fmt::format("\n# set: {}\n{} = {}", suggestion.why, suggestion.name, suggestion.value);
  text.replace(line, end - line, set);
}

void init(const std::string& path) {
  if (std::filesystem::exists(path)) throw Error(Fault::usage, path, "exists already", "choose another name");
  const std::string head =
      "# fedgrab configuration. A commented line shows the default, that of the default method where it sets one;\n"
      "# two are set to what suits your own images. Change what you need.\n"
      "# Run it with: fedgrab run " +
      path + "\n\n";
  std::string text = resolve_config(std::nullopt, {}).to_toml(true);
  for (const auto& suggestion : suggestions) insert(text, suggestion);
  write_atomically(path, head + text);
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
