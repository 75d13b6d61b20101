#include "driver/generate_rules.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ops/table.h"
#include "rewrite/proof.h"
#include "verify/rule.h"

namespace isomer::driver {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Verdicts that an earlier run left, by the hash of the rule and of its operators: a line "HASH HASH proved LINE" or
// "HASH HASH no REASON".
class Verdicts {
 public:
  Expected<void> open(const std::string& folder) {
    if (folder.empty()) return {};
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    path_ = folder + "/verdicts.txt";
    std::ifstream in(path_);
    std::string rule, operators, word, rest;
    for (std::string line; std::getline(in, line);) {
      std::istringstream s(line);
      if (s >> rule >> operators >> word && std::getline(s, rest))
        known_[rule + operators] = {word, rest.substr(rest.empty() ? 0 : 1)};
    }
    out_.open(path_, std::ios::app);
    if (!out_)
      return Diagnostic(
          "E-file", fmt::format("cannot write {}; give --resume a folder that can be written", isomer::quoted(path_)));
    return {};
  }
  const std::pair<std::string, std::string>* find(const std::string& rule, const std::string& operators) const {
    const auto it = known_.find(rule + operators);
    return it == known_.end() ? nullptr : &it->second;
  }
  void add(const std::string& rule, const std::string& operators, const std::string& word, const std::string& rest) {
    if (out_.is_open()) out_ << rule << ' ' << operators << ' ' << word << ' ' << rest << std::endl;
  }

 private:
  std::string path_;
  std::map<std::string, std::pair<std::string, std::string>> known_;
  std::ofstream out_;
};

std::string one_line(std::string s) {
  for (char& c : s)
    if (c == '\n') c = ' ';
  return s;
}

Expected<void> prove(GeneratedRules& out, const GenerateOptions& options, const GenerateReport& report) {
  Verdicts verdicts;
  ISOMER_CHECK_OK(verdicts.open(options.resume));
  rewrite::OperatorHashes operators(ops::table());
  std::vector<rewrite::Rule> open;
  std::map<std::string, std::pair<std::string, std::string>> decided;  // rule name -> word, rest
  std::map<std::string, std::pair<std::string, std::string>> keys;
  for (const rewrite::Rule& r : out.found.rules) {
    const auto key = std::pair(rewrite::rule_hash(r).hex(), operators.of(r).hex());
    keys[r.name] = key;
    const auto* old = verdicts.find(key.first, key.second);
    if (old && old->first != "proved")
      decided[r.name] = *old;
    else
      open.push_back(r);  // a proof is made anew: a record is no proof
  }
  size_t done = 0;
  const auto all =
      verify::verify_rules(open, ops::table(), {}, options.propose.threads, [&](const verify::RuleVerdict& v) {
        if (report) report("proving rules", ++done, open.size());
        const auto& key = keys[v.rule];
        verdicts.add(key.first, key.second,
                     v.verdict.proved()    ? "proved"
                     : v.verdict.refuted() ? "refuted"
                                           : "unknown",
                     one_line(v.verdict.to_string()));
      });
  std::map<std::string, const verify::RuleVerdict*> by_name;
  for (const verify::RuleVerdict& v : all) by_name[v.rule] = &v;
  for (rewrite::Rule& r : out.found.rules) {
    if (const auto it = decided.find(r.name); it != decided.end()) {
      out.unproved.push_back({r.name, it->second.second, it->second.first == "refuted"});
      continue;
    }
    const verify::RuleVerdict& v = *by_name.at(r.name);
    auto proof = verify::proof_of(r, v, ops::table());
    if (!proof) {
      out.unproved.push_back({r.name, one_line(v.verdict.to_string()), v.verdict.refuted()});
      continue;
    }
    r.proofs = {*std::move(proof)};
    out.rules.push_back(r);
  }
  return {};
}

}  // namespace

Expected<GeneratedRules> generate_rules(const GenerateOptions& options, const GenerateReport& report) {
  GeneratedRules out;
  auto start = std::chrono::steady_clock::now();
  ISOMER_TRY(out.found, propose::generate(options.propose, ops::table(), [&](const propose::GenerateProgress& p) {
               if (report)
                 report(fmt::format("{} {}{}", p.stage, p.family,
                                    p.level ? fmt::format(" size {}, {} graphs", p.level, p.count) : ""),
                        static_cast<size_t>(p.done * 1000), 1000);
             }));
  out.propose_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  out.verified = options.verify;
  if (options.verify)
    ISOMER_CHECK_OK(prove(out, options, report));
  else
    out.rules = out.found.rules;
  out.verify_seconds = seconds_since(start);
  return out;
}

std::string counts_text(const GeneratedRules& g) {
  std::string s = fmt::format("{:<9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>9}{:>9}{:>13}{:>7}{:>8}{:>8}\n",
                              "family", "graphs", "minimal", "classes", "pairs", "renamed", "unshared", "general",
                              "derived", "holding", "conditional", "MB", "s", "CPU s");
  propose::FamilyCounts sum;
  const auto line = [&](const std::string& name, const propose::FamilyCounts& c) {
    s += fmt::format("{:<9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>9}{:>9}{:>13}{:>7.0f}{:>8.1f}{:>8.1f}\n", name,
                     c.graphs, c.minimal, c.classes, c.pairs, c.renamed, c.unshared, c.general, c.derived, c.separated,
                     c.conditional, static_cast<double>(c.bytes) / 1e6, c.seconds,
                     c.enumerate_cpu + c.prune_cpu + c.generalise_cpu);
  };
  for (const propose::FamilyCounts& c : g.found.families) {
    line(c.family, c);
    sum.graphs += c.graphs, sum.minimal += c.minimal, sum.classes += c.classes, sum.pairs += c.pairs,
        sum.renamed += c.renamed;
    sum.unshared += c.unshared, sum.general += c.general, sum.derived += c.derived, sum.separated += c.separated;
    sum.conditional += c.conditional, sum.bytes = std::max(sum.bytes, c.bytes), sum.seconds += c.seconds;
    sum.enumerate_cpu += c.enumerate_cpu, sum.prune_cpu += c.prune_cpu, sum.generalise_cpu += c.generalise_cpu;
  }
  line("all", sum);
  size_t refuted = 0;
  for (const Unproved& u : g.unproved) refuted += u.refuted;
  s += fmt::format("{} rules in both directions, {}, {} drafts that are no rules\n", g.found.rules.size(),
                   g.verified ? fmt::format("{} proved, {} refuted, {} not proved", g.rules.size(), refuted,
                                            g.unproved.size() - refuted)
                              : "none of them checked by the prover",
                   g.found.refused.size());
  return s;
}

std::string rules_text(const GeneratedRules& g, const GenerateOptions& o) {
  std::string s = fmt::format("# Made by: isomer rules generate --set {} --size {} --seed {}\n\n", o.propose.set,
                              o.propose.size, o.propose.seed);
  for (const rewrite::Rule& r : g.rules) s += rewrite::print(r) + "\n";
  return s;
}

}  // namespace isomer::driver
