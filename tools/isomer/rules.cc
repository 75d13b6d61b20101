#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "driver/rule_files.h"
#include "isomer/command.h"
#include "ops/table.h"
#include "rewrite/instantiate.h"

namespace isomer::tool {
namespace {

struct Options {
  std::string rules, family, name;
};

// The proof of a rule in a word, or why it has none.
std::string proof_word(const rewrite::Rule& rule, rewrite::OperatorHashes& operators) {
  const auto proof = rewrite::valid_proof(rule, operators);
  if (!proof.ok()) return rule.proofs.empty() ? "unproved" : "stale";
  return std::string(rewrite::name((*proof)->kind));
}

nlohmann::ordered_json data(const rewrite::Rule& r, rewrite::OperatorHashes& operators) {
  nlohmann::ordered_json j{{"name", r.name}, {"family", r.family}, {"class", rewrite::name(r.numeric)}};
  j["proof"] = proof_word(r, operators);
  j["cases"] = rewrite::cases(r).size();
  j["file"] = r.where.file;
  j["line"] = r.where.line;
  return j;
}

Expected<Answer> list(const Options& o) {
  ISOMER_TRY(const rewrite::RuleLibrary library, driver::load_rule_library(o.rules, rewrite::Trust::AsWritten));
  rewrite::OperatorHashes operators(ops::table());
  Answer a;
  a.json = {{"rules", nlohmann::json::array()}};
  std::map<std::string, size_t> families;
  for (const rewrite::Rule& r : library.rules) {
    if (!o.family.empty() && r.family != o.family) continue;
    ++families[r.family];
    a.text +=
        fmt::format("{:<12}{:<48}{:<15}{}\n", r.family, r.name, rewrite::name(r.numeric), proof_word(r, operators));
    a.json["rules"].push_back(data(r, operators));
  }
  if (families.empty())
    return Diagnostic("E-usage",
                      fmt::format("there is no family {}; `isomer rules list` shows them", isomer::quoted(o.family)));
  std::string counts;
  size_t total = 0;
  for (const auto& [family, n] : families) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", family, n);
    total += n;
  }
  a.text += fmt::format("{} rules: {}\n", total, counts);
  a.json["families"] = families;
  return a;
}

Expected<Answer> show(const Options& o) {
  ISOMER_TRY(const rewrite::RuleLibrary library, driver::load_rule_library(o.rules, rewrite::Trust::AsWritten));
  const rewrite::Rule* rule = library.find(o.name);
  if (!rule)
    return Diagnostic("E-rule-name",
                      fmt::format("there is no rule {}; `isomer rules list` shows them", isomer::quoted(o.name)));
  rewrite::OperatorHashes operators(ops::table());
  Answer a;
  a.text = rewrite::print(*rule);
  a.text += fmt::format("# {}:{}, {} cases, {}\n", printable(rule->where.file), rule->where.line,
                        rewrite::cases(*rule).size(), proof_word(*rule, operators));
  a.json = data(*rule, operators);
  a.json["text"] = rewrite::print(*rule);
  a.json["hash"] = rewrite::rule_hash(*rule).hex();
  return a;
}

}  // namespace

Action declare_rules(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("--rules", o->rules, "A .rules file or a folder of them in place of the library");
  CLI::App* list_command =
      app.add_subcommand("list", "List the rules with their family, class and proof")->fallthrough();
  list_command->add_option("--family", o->family, "Only this family");
  CLI::App* show_command = app.add_subcommand("show", "Show one rule")->fallthrough();
  show_command->add_option("NAME", o->name, "The rule")->required();
  app.require_subcommand(1);
  return [o, list_command]() -> Expected<Answer> { return list_command->parsed() ? list(*o) : show(*o); };
}

}  // namespace isomer::tool
