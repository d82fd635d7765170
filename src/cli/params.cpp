#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "fedgrab/core/error.h"
#include "fedgrab/experiment/settings.h"
#include "fedgrab/method/presets.h"
#include "fedgrab/record/table.h"

namespace fedgrab::cli {
namespace {

std::string group_of(const std::string& key) { return key.substr(0, key.rfind('.')); }

void print_markdown() {
  fmt::print(
      "# Parameters\n\nWritten by `fedgrab params --markdown` from the one declaration of each parameter. Set them in "
      "a "
      "TOML file or with `--set key=value`.\n");
  std::string group;
  const Schema schema = full_schema();
  for (const auto& p : schema.all()) {
    if (group_of(p.key) != group) {
      group = group_of(p.key);
      fmt::print("\n## {}\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n", group);
    }
    const std::string allowed = p.bounds().empty() ? type_name(p.fallback) : p.bounds();
    fmt::print("| `{}` | `{}` | {} | {} |\n", p.key, to_text(p.fallback), allowed, p.help);
  }
}

void print_preset(const std::string& method) {
  const Preset& preset = find_preset(method);
  fmt::print("{}: {}\n", preset.name, preset.summary);
  for (const auto& [key, value] : preset.values) fmt::print("  {} = {}\n", key, value);
  if (preset.values.empty()) fmt::print("  all parameters at their defaults\n");
}

void print_plain(const std::string& filter) {
  const Schema schema = full_schema();
  const auto asked = [&](const Parameter& p) { return p.key.find(filter) != std::string::npos; };
  if (std::none_of(schema.all().begin(), schema.all().end(), asked))
    throw Error(Fault::usage, filter, "no parameter name contains this", "`fedgrab params` lists them all");
  for (const auto& p : schema.all()) {
    if (!asked(p)) continue;
    const std::string allowed = p.bounds().empty() ? type_name(p.fallback) : p.bounds();
    fmt::print("{} = {}\n    {} ({})\n", p.key, to_text(p.fallback), p.help, allowed);
  }
}

}  // namespace

void add_params(CLI::App& app) {
  auto* command = app.add_subcommand("params", "List all parameters: default, bounds, meaning");
  auto markdown = std::make_shared<bool>(false);
  auto filter = std::make_shared<std::string>();
  command->add_option("filter", *filter, "List only parameters whose name contains this text")->type_name("TEXT");
  command->add_flag("--markdown", *markdown, "Print Markdown, as in docs/parameters.md");
  auto method = std::make_shared<std::string>();
  command->add_option("--method", *method, "Print the values that a method sets")->type_name("NAME");
  command->callback([=] {
    if (!method->empty())
      print_preset(*method);
    else
      *markdown ? print_markdown() : print_plain(*filter);
  });
}

}  // namespace fedgrab::cli
