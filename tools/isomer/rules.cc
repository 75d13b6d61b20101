#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "driver/rule_files.h"
#include "driver/rule_proofs.h"
#include "driver/taso_report.h"
#include "isomer/command.h"
#include "isomer/progress.h"
#include "ops/table.h"
#include "rewrite/instantiate.h"

namespace isomer::tool {
namespace {

struct RulesFlags {
  std::string rules, family, name;
  std::vector<std::string> files;
  bool write = false;
};

// The proof of a rule in a word, or why it has none.
std::string proof_word(const rewrite::Rule& rule, rewrite::OperatorHashes& operators) {
  const auto proof = rewrite::valid_proof(rule, operators);
  if (!proof.ok()) return rule.proofs.empty() ? "unproved" : "stale";
  const std::string kind(rewrite::name((*proof)->kind));
  switch ((*proof)->kind) {
    case rewrite::Proof::Kind::AllSizes: return kind;
    case rewrite::Proof::Kind::Bounded: return fmt::format("{} {}", kind, (*proof)->bound);
    case rewrite::Proof::Kind::Field: return fmt::format("{} {:.1e}", kind, (*proof)->error);
  }
  return kind;
}

nlohmann::ordered_json data(const rewrite::Rule& r, rewrite::OperatorHashes& operators) {
  nlohmann::ordered_json j{{"name", r.name}, {"family", r.family}, {"class", rewrite::name(r.numeric)}};
  j["proof"] = proof_word(r, operators);
  j["cases"] = rewrite::cases(r).size();
  j["file"] = r.where.file;
  j["line"] = r.where.line;
  return j;
}

Expected<Answer> list(const RulesFlags& o) {
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

Expected<Answer> show(const RulesFlags& o) {
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

Expected<Answer> verify(const RulesFlags& o) {
  Answer a;
  a.json = {{"rules", nlohmann::json::array()}};
  std::map<std::string, size_t> counts;
  double seconds = 0;
  for (const std::string& path : o.files.empty() ? std::vector<std::string>{o.rules} : o.files) {
    Progress progress("verify", "rules");
    driver::ProofOptions options;
    options.write = o.write;
    options.progress = [&](size_t done, size_t total) { progress.show(done, total); };
    ISOMER_TRY(const std::vector<driver::RuleProof> proofs, driver::prove_rules(path, options));
    for (const driver::RuleProof& p : proofs) {
      ++counts[p.proved() ? p.answer + " (" + p.kind + ")" : p.answer];
      seconds += p.seconds;
      if (!p.proved()) {
        a.exit_code = std::max(a.exit_code, p.answer == "refused" ? 2 : 1);
        a.text += fmt::format("{}:{}: {}{}{}{}\n", printable(p.file), p.line, p.rule,
                              p.where.empty() ? "" : " (" + p.where + ")", p.rule.empty() ? "" : ": ",
                              printable(p.text, 1000));
      }
      nlohmann::ordered_json j{{"name", p.rule}, {"file", p.file}, {"line", p.line}, {"answer", p.answer}};
      if (p.proved()) j["kind"] = p.kind;
      j["verdict"] = p.text;
      j["cases"] = p.cases;
      j["queries"] = p.queries;
      j["seconds"] = p.seconds;
      a.json["rules"].push_back(std::move(j));
    }
  }
  std::string summary;
  for (const auto& [answer, n] : counts) summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", n, answer);
  a.text += fmt::format("{}; {:.1f} s of proving\n", summary.empty() ? "no rules" : summary, seconds);
  a.json["counts"] = counts;
  return a;
}

Expected<Answer> explain(const RulesFlags& o) {
  driver::ProofOptions options;
  options.names = {o.name};
  options.explain = true;
  ISOMER_TRY(const std::vector<driver::RuleProof> proofs, driver::prove_rules(o.rules, options));
  const driver::RuleProof& p = proofs.at(0);
  Answer a;
  a.exit_code = p.proved() ? 0 : 1;
  a.text = fmt::format("{}: {}\n", p.rule, p.text);
  if (!p.where.empty()) a.text += fmt::format("shown for {} of {} cases\n", p.where, p.cases);
  for (size_t k = 0; k + 1 < p.forms.size(); k += 2)
    a.text +=
        fmt::format("output {}, left:\n  {}\noutput {}, right:\n  {}\n", k / 2, p.forms[k], k / 2, p.forms[k + 1]);
  a.json = {{"name", p.rule}, {"answer", p.answer}, {"verdict", p.text}, {"case", p.where}, {"forms", p.forms}};
  return a;
}

Expected<Answer> taso(const RulesFlags& o) {
  Progress progress("taso", "rules");
  ISOMER_TRY(const driver::TasoReport report,
             driver::taso_report(o.name, [&](size_t done, size_t total) { progress.show(done, total); }));
  Answer a;
  a.text = report.markdown;
  a.exit_code = report.open == 0 ? 0 : 1;
  a.json = {{"rules", report.rules},
            {"proved_as_stated", report.as_stated},
            {"proved_under_a_condition", report.under_conditions},
            {"refuted", report.refuted},
            {"open", report.open},
            {"not_derived", report.not_derived}};
  for (const auto& [steps, rules] : report.derived) a.json["derived"][std::to_string(steps)] = rules;
  return a;
}

}  // namespace

Action declare_rules(CLI::App& app) {
  auto o = std::make_shared<RulesFlags>();
  app.add_option("--rules", o->rules, "A .rules file or a folder of them in place of the library");
  CLI::App* list_command =
      app.add_subcommand("list", "List the rules with their family, class and proof")->fallthrough();
  list_command->add_option("--family", o->family, "Only this family");
  CLI::App* show_command = app.add_subcommand("show", "Show one rule")->fallthrough();
  show_command->add_option("NAME", o->name, "The rule")->required();
  CLI::App* verify_command =
      app.add_subcommand("verify", "Prove or refute rules anew, whatever their proof lines say")->fallthrough();
  verify_command->add_option("FILE", o->files, "Files or folders of rules (standard: the library)");
  verify_command->add_flag("--write", o->write, "Bring the proof lines of the files up to date");
  CLI::App* explain_command =
      app.add_subcommand("explain", "Show what both sides of a rule normalise to, or the counterexample")
          ->fallthrough();
  explain_command->add_option("NAME", o->name, "The rule")->required();
  CLI::App* taso_command =
      app.add_subcommand("taso", "Report on the rules of TASO's release, given as text")->fallthrough();
  taso_command->add_option("FILE", o->name, "The file")->required();
  const Action generate = declare_rules_generate(app);
  app.require_subcommand(1);
  return [=, &app]() -> Expected<Answer> {
    if (app.got_subcommand("generate")) return generate();
    if (list_command->parsed()) return list(*o);
    if (verify_command->parsed()) return verify(*o);
    if (taso_command->parsed()) return taso(*o);
    return explain_command->parsed() ? explain(*o) : show(*o);
  };
}

}  // namespace isomer::tool
