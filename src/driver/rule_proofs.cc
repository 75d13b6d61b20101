#include "driver/rule_proofs.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "driver/rule_files.h"
#include "ops/table.h"

#ifdef ISOMER_HAS_PROVER
#include "verify/rule.h"
#endif

namespace isomer::driver {

#ifdef ISOMER_HAS_PROVER
namespace {

std::string answer(const verify::Verdict& v) {
  switch (v.kind) {
    case verify::Verdict::Kind::Proved: return "proved";
    case verify::Verdict::Kind::Refuted: return "refuted";
    case verify::Verdict::Kind::Unknown: return "unknown";
    case verify::Verdict::Kind::Unsupported: return "unsupported";
  }
  return "unknown";
}

std::string proof_line(const rewrite::Proof& proof, const rewrite::Rule& rule) {
  rewrite::Rule with = rule;
  with.proofs = {proof};
  const std::string text = rewrite::print(with);
  const size_t at = text.rfind("  proof ");
  return text.substr(at, text.find('\n', at) - at);
}

bool blank(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string::npos || line[first] == '#';
}

// The text of a file with the proof lines of its rules replaced. Everything else stays as it is.
std::string with_proofs(const std::vector<std::string>& lines, const std::vector<const rewrite::Rule*>& rules,
                        const std::map<std::string, std::string>& proofs) {
  std::set<size_t> dropped;
  std::map<size_t, std::string> after;  // line number, from 1 -> what follows it
  std::vector<size_t> starts;
  for (const rewrite::Rule* r : rules) starts.push_back(r->where.line);
  std::sort(starts.begin(), starts.end());
  for (const rewrite::Rule* r : rules) {
    for (const rewrite::Proof& p : r->proofs) dropped.insert(p.where.line);
    const auto next = std::upper_bound(starts.begin(), starts.end(), static_cast<size_t>(r->where.line));
    size_t last = next == starts.end() ? lines.size() : *next - 1;
    while (last > r->where.line && (blank(lines[last - 1]) || dropped.contains(last))) --last;
    if (const auto it = proofs.find(r->name); it != proofs.end()) after[last] = it->second;
  }
  std::string out;
  for (size_t n = 1; n <= lines.size(); ++n) {
    if (!dropped.contains(n)) out += lines[n - 1] + "\n";
    if (const auto it = after.find(n); it != after.end()) out += it->second + "\n";
  }
  return out;
}

Expected<void> write_proofs(const std::vector<rewrite::Rule>& rules, const std::vector<verify::RuleVerdict>& verdicts) {
  std::map<std::string, std::vector<const rewrite::Rule*>> files;
  std::map<std::string, std::string> proofs;
  for (size_t i = 0; i < rules.size(); ++i) {
    files[rules[i].where.file].push_back(&rules[i]);
    if (const auto p = verify::proof_of(rules[i], verdicts[i], ops::table()))
      proofs[rules[i].name] = proof_line(*p, rules[i]);
  }
  for (const auto& [file, own] : files) {
    std::vector<std::string> lines;
    {
      std::ifstream in(file);
      for (std::string line; std::getline(in, line);) lines.push_back(line);
      if (!in.eof()) return Diagnostic("E-file", fmt::format("cannot read {}", isomer::quoted(file)));
    }
    std::ofstream out(file, std::ios::trunc);
    out << with_proofs(lines, own, proofs);
    if (!out.flush()) return Diagnostic("E-file", fmt::format("cannot write {}", isomer::quoted(file)));
  }
  return {};
}

RuleProof refused(const Diagnostic& d) {
  RuleProof p;
  p.file = d.where.file;
  p.line = d.where.line;
  p.answer = "refused";
  p.text = fmt::format("error[{}]: {}", d.code, d.message);
  return p;
}

}  // namespace

Expected<std::vector<RuleProof>> prove_rules(const std::string& path, const ProofOptions& o) {
  // Explaining or writing needs all of a file to be right; otherwise one wrong rule says nothing of the others.
  const bool whole = o.explain || o.write || !o.names.empty();
  ISOMER_TRY(rewrite::RuleLibrary library,
             load_rule_library(path, whole ? rewrite::Trust::AsWritten : rewrite::Trust::Judged));
  for (const std::string& name : o.names)
    if (!library.find(name))
      return Diagnostic("E-rule-name",
                        fmt::format("there is no rule {}; `isomer rules list` shows them", isomer::quoted(name)));
  if (!o.names.empty() && o.write)
    return Diagnostic("E-usage", "--write brings whole files up to date; leave the rule names out");
  if (!o.names.empty())
    std::erase_if(library.rules, [&](const rewrite::Rule& r) {
      return std::find(o.names.begin(), o.names.end(), r.name) == o.names.end();
    });
  verify::Options options;
  options.keep_forms = o.explain;
  size_t done = 0;
  const auto verdicts =
      verify::verify_rules(library.rules, ops::table(), options, o.threads, [&](const verify::RuleVerdict&) {
        if (o.progress) o.progress(++done, library.rules.size());
      });
  if (o.write) ISOMER_CHECK_OK(write_proofs(library.rules, verdicts));
  std::vector<RuleProof> out;
  for (const Diagnostic& d : library.refused) out.push_back(refused(d));
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const verify::RuleVerdict& v = verdicts[i];
    RuleProof p;
    p.rule = v.rule;
    p.file = library.rules[i].where.file;
    p.line = library.rules[i].where.line;
    p.answer = answer(v.verdict);
    if (const auto proof = verify::proof_of(library.rules[i], v, ops::table()))
      p.kind = std::string(rewrite::name(proof->kind));
    p.text = v.verdict.to_string();
    p.where = v.where;
    p.cases = v.cases;
    p.queries = v.verdict.queries;
    p.seconds = v.seconds;
    p.forms = v.verdict.forms;
    out.push_back(std::move(p));
  }
  return out;
}
#else
Expected<std::vector<RuleProof>> prove_rules(const std::string&, const ProofOptions&) {
  return Diagnostic("E-no-prover", "this Isomer was built without a prover (ISOMER_Z3)");
}
#endif

}  // namespace isomer::driver
