/// Shell completion: commands, flags, and the keys of --set.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "fedgrab/experiment/settings.h"
#include "fedgrab/method/presets.h"

namespace fedgrab::cli {
namespace {

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::string bash_script(const CLI::App& app) {
  std::vector<std::string> commands, keys, methods_and_presets;
  std::string cases;
  for (const auto* command : app.get_subcommands({})) {
    commands.push_back(command->get_name());
    auto words = flags_of(*command);
    for (const auto* inner : command->get_subcommands({})) {
      words.push_back(inner->get_name());
      for (const auto& flag : flags_of(*inner)) words.push_back(flag);
    }
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), join(words));
  }
  const Schema schema = full_schema();
  for (const auto& parameter : schema.all()) keys.push_back(parameter.key + "=");
  for (const auto& entry : presets()) methods_and_presets.push_back(entry.name);
  return fmt::format(R"sh(# bash completion for fedgrab: eval "$(fedgrab completion bash)"
_fedgrab() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  case "$previous" in
    --set) compopt -o nospace; COMPREPLY=($(compgen -W "{}" -- "$current")); return ;;
    --method) COMPREPLY=($(compgen -W "{}" -- "$current")); return ;;
    --model) COMPREPLY=($(compgen -W "{}" -- "$current")); return ;;
  esac
  case "${{COMP_WORDS[1]}}" in
{}    *) words="{}" ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{}"
  COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}}
complete -F _fedgrab fedgrab
)sh",
                     join(keys), join(methods_and_presets), join(architecture_names()), cases, join(commands),
                     join(commands));
}

}  // namespace

void add_completion(CLI::App& app) {
  auto* command = app.add_subcommand("completion", "Print shell completion: eval \"$(fedgrab completion bash)\"");
  auto shell = std::make_shared<std::string>("bash");
  command->add_option("shell", *shell, "bash or zsh")->check(CLI::IsMember({"bash", "zsh"}))->capture_default_str();
  command->callback([shell, &app] {
    if (*shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
    fmt::print("{}", bash_script(app));
  });
}

}  // namespace fedgrab::cli
