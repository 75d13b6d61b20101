// Completion scripts, written from the command table itself so that they cannot fall behind it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "isomer/command.h"

namespace isomer::tool {
namespace {

struct Entry {
  std::string name, summary;
  std::vector<std::string> flags;
};

std::vector<Entry> entries(const CLI::App& root) {
  std::vector<Entry> out;
  for (const CLI::App* sub : root.get_subcommands([](const CLI::App*) { return true; })) {
    Entry e{sub->get_name(), sub->get_description(), {}};
    for (const CLI::Option* option : sub->get_options())
      for (const std::string& l : option->get_lnames()) e.flags.push_back("--" + l);
    out.push_back(std::move(e));
  }
  return out;
}

std::string bash(const std::vector<Entry>& all) {
  std::string names, cases;
  for (const Entry& e : all) {
    names += (names.empty() ? "" : " ") + e.name;
    cases += fmt::format("    {}) words=\"{}\" ;;\n", e.name, fmt::join(e.flags, " "));
  }
  return fmt::format(
      "_isomer() {{\n  local words current=\"${{COMP_WORDS[COMP_CWORD]}}\"\n  case \"${{COMP_WORDS[1]}}\" in\n{}    *) "
      "words=\"{} --help --version\" ;;\n  esac\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then words=\"{} --help --version\"; fi\n"
      "  if [[ $COMP_CWORD -gt 1 && $current != -* ]]; then COMPREPLY=($(compgen -f -- \"$current\"));\n"
      "  else COMPREPLY=($(compgen -W \"$words\" -- \"$current\")); fi\n}}\ncomplete -o filenames -F _isomer isomer\n",
      cases, names, names);
}

std::string zsh(const std::vector<Entry>& all) { return "autoload -U +X bashcompinit && bashcompinit\n" + bash(all); }

std::string fish(const std::vector<Entry>& all) {
  std::string out;
  for (const Entry& e : all) {
    out += fmt::format("complete -c isomer -n __fish_use_subcommand -a {} -d \"{}\"\n", e.name, e.summary);
    for (const std::string& f : e.flags)
      out += fmt::format("complete -c isomer -n \"__fish_seen_subcommand_from {}\" -l {}\n", e.name, f.substr(2));
  }
  return out;
}

}  // namespace

Action declare_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell, &app]() -> Expected<Answer> {
    const std::vector<Entry> all = entries(*app.get_parent());
    Answer a;
    a.text = *shell == "bash" ? bash(all) : *shell == "zsh" ? zsh(all) : fish(all);
    a.json = {{"shell", *shell}, {"script", a.text}};
    return a;
  };
}

}  // namespace isomer::tool
