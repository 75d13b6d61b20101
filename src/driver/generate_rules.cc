#include "driver/generate_rules.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "base/thread_pool.h"
#include "driver/open_attributes.h"
#include "driver/prune_rules.h"
#include "driver/rule_files.h"
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

// Rules of this run that say something new, proved and as general as their proofs.
Expected<void> prove(GeneratedRules& out, std::vector<rewrite::Rule> rules, const GenerateOptions& options,
                     const GenerateReport& report) {
  Verdicts verdicts;
  ISOMER_CHECK_OK(verdicts.open(options.resume));
  rewrite::OperatorHashes operators(ops::table());
  std::vector<rewrite::Rule> open;
  std::map<std::string, std::pair<std::string, std::string>> decided;  // rule name -> word, rest
  std::map<std::string, std::pair<std::string, std::string>> keys;
  for (const rewrite::Rule& r : rules) {
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
  for (rewrite::Rule& r : rules) {
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
    out.rules.push_back(std::move(r));
  }
  return {};
}

// Attributes as variables where the proof allows; rules that became the same are one.
void open_all(GeneratedRules& out, int threads, const GenerateReport& report) {
  std::vector<OpenedRule> opened(out.rules.size());
  std::atomic<size_t> done{0};
  std::mutex mutex;
  ThreadPool pool(threads);
  pool.run(static_cast<int>(out.rules.size()), [&](int i) {
    const auto k = static_cast<size_t>(i);
    opened[k] = open_attributes(out.rules[k]);
    const size_t now = ++done;
    if (!report || now % 16 != 0) return;
    const std::lock_guard lock(mutex);
    report("opening attributes", now, out.rules.size());
  });
  std::set<std::string> texts;
  out.rules.clear();
  for (OpenedRule& o : opened) {
    const std::string text = rewrite::print(o.rule, false);
    if (!texts.insert(text.substr(text.find(" : "))).second) continue;
    out.counts.opened += o.opened;
    out.rules.push_back(std::move(o.rule));
  }
}

Expected<void> prove_and_prune(GeneratedRules& out, const GenerateOptions& options, const GenerateReport& report) {
  RuleCounts& c = out.counts;
  const int threads = options.propose.threads;
  auto start = std::chrono::steady_clock::now();
  const auto lap = [&] {
    const double s = seconds_since(start);
    start = std::chrono::steady_clock::now();
    return s;
  };
  const auto stage = [&](const char* name) {
    return [&report, name](size_t done, size_t total) {
      if (report) report(name, done, total);
    };
  };
  ISOMER_TRY(const rewrite::RuleLibrary library, load_rule_library("", rewrite::Trust::Proved));
  std::vector<rewrite::Rule> left =
      not_derivable(out.found.rules, library.rules, threads, stage("deriving from the library"));
  c.not_from_library = left.size();
  c.derive_seconds = lap();
  ISOMER_CHECK_OK(prove(out, std::move(left), options, report));
  c.proved = out.rules.size();
  for (const rewrite::Rule& r : out.rules) {
    c.all_sizes += r.proofs[0].kind == rewrite::Proof::Kind::AllSizes;
    c.bounded += r.proofs[0].kind == rewrite::Proof::Kind::Bounded;
    c.field += r.proofs[0].kind == rewrite::Proof::Kind::Field;
  }
  c.prove_seconds = lap();
  open_all(out, threads, report);
  c.distinct = out.rules.size();
  c.open_seconds = lap();
  out.rules = independent(out.rules, library.rules, threads, stage("deriving from the others"));
  c.independent = out.rules.size();
  c.derive_seconds += lap();
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
  out.counts.found = out.found.rules.size();
  if (options.verify)
    ISOMER_CHECK_OK(prove_and_prune(out, options, report));
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
  s += fmt::format("{} rules in both directions, {} drafts that are no rules\n", g.found.rules.size(),
                   g.found.refused.size());
  if (!g.verified) return s + "none of them checked by the prover\n";
  const RuleCounts& c = g.counts;
  s += fmt::format(
      "{} do not follow from the library; of these {} proved ({} for all sizes, {} bounded, {} field), {} refuted, {} "
      "not "
      "proved\n"
      "{} different rules, {} of them with attributes that became variables; {} follow neither from the library nor "
      "from "
      "smaller ones\n"
      "seconds: {:.0f} deriving, {:.0f} proving, {:.0f} opening attributes\n",
      c.not_from_library, c.proved, c.all_sizes, c.bounded, c.field, refuted, g.unproved.size() - refuted, c.distinct,
      c.opened, c.independent, c.derive_seconds, c.prove_seconds, c.open_seconds);
  return s;
}

std::string rules_text(const GeneratedRules& g, const GenerateOptions& o) {
  std::string s = fmt::format("# Made by: isomer rules generate --set {} --size {} --seed {}\n\n", o.propose.set,
                              o.propose.size, o.propose.seed);
  for (const rewrite::Rule& r : g.rules) s += rewrite::print(r) + "\n";
  return s;
}

}  // namespace isomer::driver
