// isomer rules generate: find rules by enumerating small graphs, and prove them.
#include <fmt/format.h>

#include <fstream>

#include "driver/generate_rules.h"
#include "isomer/command.h"
#include "isomer/progress.h"

namespace isomer::tool {
namespace {

nlohmann::ordered_json data(const driver::GeneratedRules& g) {
  nlohmann::ordered_json j{{"families", nlohmann::json::array()}};
  for (const propose::FamilyCounts& c : g.found.families) {
    nlohmann::ordered_json f{{"family", c.family},
                             {"graphs", c.graphs},
                             {"minimal", c.minimal},
                             {"classes", c.classes},
                             {"pairs", c.pairs},
                             {"renamed", c.renamed},
                             {"unshared", c.unshared},
                             {"general", c.general},
                             {"derived", c.derived},
                             {"holding", c.separated},
                             {"conditional", c.conditional},
                             {"bytes", c.bytes},
                             {"seconds", c.seconds},
                             {"enumerate_cpu", c.enumerate_cpu},
                             {"prune_cpu", c.prune_cpu},
                             {"generalise_cpu", c.generalise_cpu}};
    f["sizes"] = nlohmann::json::array();
    for (size_t i = 1; i < c.levels.size(); ++i)
      f["sizes"].push_back({{"operators", i},
                            {"graphs", c.levels[i].graphs},
                            {"minimal", c.levels[i].minimal},
                            {"classes", c.levels[i].classes},
                            {"pairs", c.levels[i].pairs}});
    j["families"].push_back(std::move(f));
  }
  j["rules"] = g.rules.size();
  j["verified"] = g.verified;
  if (g.verified) {
    const driver::RuleCounts& c = g.counts;
    j["stages"] = {{"found", c.found},
                   {"not_from_library", c.not_from_library},
                   {"proved", c.proved},
                   {"all_sizes", c.all_sizes},
                   {"bounded", c.bounded},
                   {"field", c.field},
                   {"opened", c.opened},
                   {"distinct", c.distinct},
                   {"independent", c.independent},
                   {"derive_seconds", c.derive_seconds},
                   {"prove_seconds", c.prove_seconds},
                   {"open_seconds", c.open_seconds}};
  }
  j["unproved"] = nlohmann::json::array();
  for (const driver::Unproved& u : g.unproved)
    j["unproved"].push_back({{"rule", u.rule}, {"refuted", u.refuted}, {"reason", printable(u.reason, 2000)}});
  j["refused_drafts"] = nlohmann::json::array();
  for (const std::string& why : g.found.refused) j["refused_drafts"].push_back(printable(why, 2000));
  j["propose_seconds"] = g.propose_seconds;
  j["verify_seconds"] = g.verify_seconds;
  return j;
}

struct RulesGenerateFlags {
  driver::GenerateOptions generate;
  std::string out;
  bool no_verify = false;
};

Expected<Answer> generate(RulesGenerateFlags& o) {
  if (o.no_verify) o.generate.verify = false;
  std::string stage;
  std::unique_ptr<Progress> progress;
  ISOMER_TRY(const driver::GeneratedRules g,
             driver::generate_rules(o.generate, [&](const std::string& now, size_t done, size_t total) {
               if (now != stage) {
                 progress = nullptr;
                 progress = std::make_unique<Progress>(now);
                 stage = now;
               }
               progress->show(done, total);
             }));
  progress = nullptr;
  Answer a;
  const std::string text = driver::rules_text(g, o.generate);
  a.json = data(g);
  a.text = driver::counts_text(g);
  for (const driver::Unproved& u : g.unproved)
    a.text += fmt::format("dropped {}: {}\n", u.rule, printable(u.reason, 200));
  if (!o.out.empty()) {
    std::ofstream file(o.out, std::ios::binary);
    file << text;
    file.close();
    if (!file)
      return Diagnostic("E-file",
                        fmt::format("cannot write {}; give -o a file that can be written", isomer::quoted(o.out)));
    std::ofstream counts(o.out + ".json", std::ios::binary);
    counts << a.json.dump(2) << "\n";
  } else {
    a.text = text + "\n# " + a.text;
    for (size_t i = text.size(); (i = a.text.find('\n', i)) != std::string::npos && i + 1 < a.text.size(); ++i)
      a.text.insert(i + 1, "# ");
  }
  return a;
}

}  // namespace

Action declare_rules_generate(CLI::App& rules) {
  auto o = std::make_shared<RulesGenerateFlags>();
  CLI::App* command =
      rules.add_subcommand("generate", "Find rules by enumerating small graphs, and prove them")->fallthrough();
  command->add_option("--set", o->generate.propose.set, "Operators to enumerate: taso or full")->capture_default_str();
  command->add_option("--family", o->generate.propose.family, "Only this family of the set");
  command->add_option("--size", o->generate.propose.size, "Operators of a graph at most")->capture_default_str();
  command->add_option("-o,--output", o->out, "The .rules file to write, and beside it FILE.json with all counts");
  command->add_option("--threads", o->generate.propose.threads, "Threads (0: one per core)")->capture_default_str();
  command->add_option("--seed", o->generate.propose.seed, "Seed of the values")->capture_default_str();
  command->add_option("--resume", o->generate.resume, "A folder for what is known so far; a later run goes on from it");
  command->add_flag("--prove,!--no-prove", o->generate.verify,
                    "Prune by the library, prove, open attributes, prune again (standard)");
  command->add_flag("--no-verify", o->no_verify, "Write candidates as they are, unproved");
  return [o]() { return generate(*o); };
}

}  // namespace isomer::tool
