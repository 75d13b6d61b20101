#include "driver/taso_report.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "driver/rule_files.h"
#include "ops/table.h"
#include "rewrite/derive.h"
#include "rewrite/taso.h"

#ifdef ISOMER_HAS_PROVER
#include "verify/rule.h"
#endif

namespace isomer::driver {

#ifdef ISOMER_HAS_PROVER
namespace {

bool uses(const rewrite::Rule& rule, std::initializer_list<std::string_view> names) {
  for (const rewrite::Side* side : {&rule.lhs, &rule.rhs})
    for (const rewrite::Call& c : side->calls)
      for (std::string_view n : names)
        if (c.op->name == n) return true;
  return false;
}

std::string conditions(const rewrite::Rule& rule) {
  std::string out;
  if (uses(rule, {"conv"})) out = "group = 1";
  if (uses(rule, {"add", "mul"})) out += out.empty() ? "no broadcast" : ", no broadcast";
  return out;
}

// Two convolutions concatenated by channels, as one whose groups TASO implies: there are two groups, and the rule says
// nothing of the output channels. `more`: how many the second has beyond the first.
std::string implied_groups(bool relu, bool more) {
  const std::string open = relu ? "relu(" : "", close = relu ? ")" : "";
  const std::string attrs = "{pads=[1, 1, 1, 1]}", grouped = "{pads=[1, 1, 1, 1], group=2}";
  return fmt::format(
      "rule implied-groups : exact\n"
      "  ?g : T[N, C, H, W]  ?h : T[N, C, H, W]  ?j : T[O, C, 3, 3]  ?k : T[O{2}, C, 3, 3]\n"
      "  concat({0}conv(?g, ?j){3}{1}, {0}conv(?h, ?k){3}{1}){{axis=1}}\n"
      "  => {0}conv(concat(?g, ?h){{axis=1}}, concat(?j, ?k){{axis=0}}){4}{1}\n",
      open, close, more ? "+2*e" : "", attrs, grouped);
}

Expected<rewrite::Rule> rule_of(const std::string& text) {
  ISOMER_TRY(auto rules, rewrite::parse_rules(text, ops::table()));
  return std::move(rules.front());
}

// How a rule that is true follows from the library.
std::string from_library(const rewrite::Rule& rule, const rewrite::Deriver& library, TasoReport& report) {
  const auto way = library.derive(rule);
  if (!way) {
    ++report.not_derived;
    return "no";
  }
  ++report.derived[way->size()];
  std::string s;
  for (const std::string& step : *way) s += (s.empty() ? "" : ", ") + step;
  return s.empty() ? "both sides are one graph" : s;
}

// A rule that no shapes fit without groups: with the groups it implies it is wrong, and right under a condition.
Expected<std::string> with_groups(const rewrite::TasoRule& r, bool relu, const rewrite::Deriver& library,
                                  TasoReport& report) {
  ISOMER_TRY(const rewrite::Rule uneven, rule_of(implied_groups(relu, true)));
  ISOMER_TRY(const rewrite::Rule even, rule_of(implied_groups(relu, false)));
  const verify::RuleVerdict wrong = verify::verify_rule(uneven, ops::table());
  const verify::RuleVerdict right = verify::verify_rule(even, ops::table());
  if (!wrong.verdict.refuted() || !right.verdict.proved()) {
    ++report.open;
    return fmt::format("| {} | open | {} | | {} |\n", r.number, r.problem, wrong.verdict.to_string());
  }
  ++report.refuted;
  return fmt::format(
      "| {} | refuted as stated; proved with two groups under the condition | equal output channels | {} | {} |\n",
      r.number, from_library(even, library, report), wrong.verdict.counterexample->to_string());
}

std::string line(const rewrite::TasoRule& r, const verify::RuleVerdict& v, const rewrite::Deriver& library,
                 TasoReport& report) {
  const std::string condition = conditions(*r.rule);
  if (v.verdict.proved()) {
    ++(condition.empty() ? report.as_stated : report.under_conditions);
    return fmt::format("| {} | proved for all sizes | {} | {} | |\n", r.number,
                       condition.empty() ? "as stated" : condition, from_library(*r.rule, library, report));
  }
  ++(v.verdict.refuted() ? report.refuted : report.open);
  return fmt::format("| {} | {} | {} | | {} |\n", r.number, v.verdict.refuted() ? "refuted" : "open", condition,
                     v.verdict.to_string());
}

std::string steps_text(const TasoReport& report) {
  std::string s;
  for (const auto& [steps, rules] : report.derived)
    s += fmt::format("{}{} in {} step{}", s.empty() ? "" : ", ", rules, steps, steps == 1 ? "" : "s");
  return s.empty() ? "None" : s;
}

}  // namespace

Expected<TasoReport> taso_report(const std::string& path,
                                 const std::function<void(size_t done, size_t total)>& progress) {
  std::ifstream in(path);
  if (!in) return Diagnostic("E-file", fmt::format("cannot read {}", isomer::quoted(path)));
  std::stringstream text;
  text << in.rdbuf();
  ISOMER_TRY(const std::vector<rewrite::TasoRule> all, rewrite::read_taso(text.str(), ops::table(), path));
  std::vector<rewrite::Rule> rules;
  for (const rewrite::TasoRule& r : all)
    if (r.rule) rules.push_back(*r.rule);
  size_t done = 0;
  const auto verdicts = verify::verify_rules(rules, ops::table(), {}, 0, [&](const verify::RuleVerdict&) {
    if (progress) progress(++done, rules.size());
  });
  ISOMER_TRY(const rewrite::RuleLibrary loaded, load_rule_library("", rewrite::Trust::Proved));
  const rewrite::Deriver library(loaded.rules, ops::table());
  TasoReport report;
  report.rules = all.size();
  std::string table;
  size_t next = 0;
  for (const rewrite::TasoRule& r : all) {
    if (r.rule) {
      table += line(r, verdicts[next++], library, report);
      continue;
    }
    const std::string file = text.str(), head = fmt::format("\nrule {}\n", r.number);
    const size_t at = file.find(head);
    const std::string own = at == std::string::npos ? "" : file.substr(at, file.find("\nrule ", at + 1) - at);
    const bool relu = own.find("activation=relu") != std::string::npos;
    ISOMER_TRY(const std::string row, with_groups(r, relu, library, report));
    table += row;
  }
  report.markdown = fmt::format(
      "# TASO's released rules, re-proved\n\n"
      "Written by `isomer rules taso FILE`. TASO's rules carry no shapes; a convolution's groups are implied by its\n"
      "operands, and element-wise operands may broadcast. Here shapes are inferred from both sides. \"As stated\": "
      "the\n"
      "rule holds for all shapes for which both sides are well typed. \"group = 1\": the convolutions must have one "
      "group\n"
      "each (several rules are wrong with more). \"no broadcast\": element-wise operands must have one shape.\n\n"
      "{} rules: {} proved as stated, {} proved under the condition, {} refuted as stated, {} open. All proofs are for "
      "all\n"
      "sizes; every counterexample was confirmed by the reference interpreter.\n\n"
      "\"From the library\": the rules of the library that lead from one side to the other, found by the matcher; "
      "a rule may be\n"
      "used backwards, since what is asked is whether the equation follows. {}, {} not found in four steps.\n\n"
      "| rule | answer | condition | from the library | counterexample |\n|---|---|---|---|---|\n{}",
      report.rules, report.as_stated, report.under_conditions, report.refuted, report.open, steps_text(report),
      report.not_derived, table);
  return report;
}
#else
Expected<TasoReport> taso_report(const std::string&, const std::function<void(size_t, size_t)>&) {
  return Diagnostic("E-no-prover", "this Isomer was built without a prover (ISOMER_Z3)");
}
#endif

}  // namespace isomer::driver
